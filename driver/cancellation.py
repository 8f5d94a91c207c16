"""The end of a driver by SIGTERM, which its main thread meets as an exception."""

from __future__ import annotations

import signal
import sys
from types import FrameType
from typing import Any, NoReturn


class Cancelled(BaseException):
    """Raised by SIGTERM; a BaseException, since py4j replaces ordinary exceptions by its own."""


def raise_cancelled(number: int, frame: FrameType | None) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    # after an interrupted call, this thread would get the answer of that call to its next one
    pyspark: Any = sys.modules.get("pyspark")
    gateway = getattr(getattr(pyspark, "SparkContext", None), "_gateway", None)
    if gateway is not None:
        gateway.proc.kill()
    raise Cancelled


def is_cancelled(error: BaseException) -> bool:
    """Return whether Cancelled is the error or a cause of it: PySpark calls Java while it is raised, which may fail."""
    context = error.__context__
    return isinstance(error, Cancelled) or (context is not None and is_cancelled(context))
