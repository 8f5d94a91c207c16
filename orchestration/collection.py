"""Python's garbage collector, which waits while definitions are built."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def pause_collection() -> Generator[None]:
    """Pause the collector, which would search millions of new objects many times and find no garbage."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
