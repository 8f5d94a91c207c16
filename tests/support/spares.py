"""Spare drivers of a data folder, kept as the launcher keeps them."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from core.infra.settings import Settings
from driver.handover import READY, SOCKET
from orchestration.compute.spares import Spares
from tests.support.service import PATIENCE_SECONDS, wait_until


@contextmanager
def keep_spares(settings: Settings) -> Generator[None]:
    stop = threading.Event()
    keeper = threading.Thread(target=Spares(settings).run, args=(stop,))
    keeper.start()
    try:
        yield
    finally:
        stop.set()
        keeper.join()


def wait_for_spare(data: Path, ready: bool = False) -> Path:
    """The folder of a spare that can be taken, also while it starts unless it shall be `ready`."""
    wait_until(lambda: find_spares(data, ready), PATIENCE_SECONDS)
    return find_spares(data, ready)[0]


def find_spares(data: Path, ready: bool = False) -> list[Path]:
    folders = (path.parent for path in (data / "scratch").glob(f"spare-*/{SOCKET}"))
    return [folder for folder in folders if not ready or (folder / READY).exists()]
