"""The server of forks of a data folder, kept as the launcher keeps it."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager

from core.infra.settings import Settings
from driver.host_folder import FORKS
from orchestration.compute.forks import ForkServer
from tests.support.service import PATIENCE_SECONDS, wait_until


@contextmanager
def keep_forks(settings: Settings) -> Generator[None]:
    """Keep the server, which answers from the beginning on."""
    stop = threading.Event()
    keeper = threading.Thread(target=ForkServer(settings).run, args=(stop,))
    keeper.start()
    try:
        wait_until((settings.data / FORKS).exists, PATIENCE_SECONDS)
        yield
    finally:
        stop.set()
        keeper.join()
