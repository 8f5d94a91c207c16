"""The host of forks of a data folder."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from core.infra.settings import Settings
from driver.host_folder import FORKS
from orchestration.compute.host_keeper import ForkHost
from tests.support.service import PATIENCE_SECONDS, wait_until


@contextmanager
def keep_forks(settings: Settings) -> Generator[None]:
    """Keep the host, which answers from the beginning on."""
    host = ForkHost(settings.data)
    host.keep("unchanged")
    try:
        wait_until((settings.data / FORKS).exists, PATIENCE_SECONDS)
        yield
    finally:
        host.close()
