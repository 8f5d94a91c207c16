"""The host of forks to which a compute gives executions."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from orchestration.compute.local import LocalCompute
from tests.support.service import PATIENCE_SECONDS, wait_until


@contextmanager
def keep_forks(compute: LocalCompute) -> Generator[None]:
    """Keep the host, which answers from the beginning on."""
    compute.hosts._keep_forks()
    try:
        wait_until(lambda: compute.hosts.forks.listens, PATIENCE_SECONDS)
        yield
    finally:
        compute.hosts.close()
