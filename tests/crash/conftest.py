"""A service for tests that kill its processes, or all of it."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from tests.support.proxy import ReportProxy, serve_report_proxy
from tests.support.service import PATIENCE_SECONDS, Service, serve_service

LOST_AFTER_SECONDS = 40  # a driver repeats its last report each 30 s


@pytest.fixture(scope="session")
def reports() -> Iterator[ReportProxy]:
    """The proxy through which drivers report to the expendable service."""
    with serve_report_proxy() as proxy:
        yield proxy


@pytest.fixture(scope="session")
def expendable(reports: ReportProxy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service that gives up silent drivers after 40 s; a test that kills all of it starts it again."""
    silence = str(LOST_AFTER_SECONDS)
    environment = {"SPINDLE_LOST_AFTER_SECONDS": silence, "SPINDLE_HUNG_AFTER_SECONDS": silence}
    environment["SPINDLE_PUBLIC_URL"] = reports.url
    with serve_service(tmp_path_factory.mktemp("expendable"), environment) as service:
        reports.target = service.base_url
        yield service
        service.process.send_signal(signal.SIGINT)  # others are stopped by SIGTERM
        assert service.process.wait(PATIENCE_SECONDS) == 0
