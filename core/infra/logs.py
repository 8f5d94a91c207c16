"""Logging of the service as JSON lines."""

from __future__ import annotations

import logging
import sys

import structlog


def configure(service: str) -> None:
    """Log to stderr, one JSON object a line, with the name of the service."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.EventRenamer("event"),
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,  # creating a logger costs as much as a line
    )
    structlog.contextvars.bind_contextvars(service=service)
