"""Counts and times of the requests that this process has answered, for Prometheus."""

from __future__ import annotations

import os

from prometheus_client import CollectorRegistry, Counter, Histogram

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
UNMATCHED = "other"  # the addresses of clients would be labels without end


class RequestMetrics:
    """The requests of this process, by method, route and status."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry(auto_describe=True)
        labels = ("worker", "method", "route", "status")
        self._count = Counter("spindle_requests", "Requests that were answered.", labels, registry=self.registry)
        self._seconds = Histogram(
            "spindle_request_seconds",
            "Time from a request to the end of its answer.",
            ("worker", "method", "route"),
            buckets=SECONDS,
            registry=self.registry,
        )
        self._worker = str(os.getpid())

    def observe(self, method: str, route: str | None, status: int, seconds: float) -> None:
        labels = (self._worker, method, route or UNMATCHED)
        self._count.labels(*labels, str(status)).inc()
        self._seconds.labels(*labels).observe(seconds)
