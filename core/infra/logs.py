"""Logging of the service as JSON lines."""

from __future__ import annotations

import logging
import sys
from traceback import format_exception

import structlog
from structlog.typing import ExcInfo

FRAMES = 100  # also in a process that shows none to its users, by `sys.tracebacklimit`


def configure(service: str) -> None:
    """Log to stderr, one JSON object a line, with the name of the service."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.ExceptionRenderer(_format_exception),
            structlog.processors.EventRenamer("event"),
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,  # creating a logger costs as much as a line
    )
    structlog.contextvars.bind_contextvars(service=service)


def _format_exception(exc_info: ExcInfo) -> str:
    return "".join(format_exception(*exc_info, limit=FRAMES)).rstrip()
