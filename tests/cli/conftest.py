"""A command line beside a running API."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
import structlog
from typer.testing import CliRunner

from cli.main import main
from tests.support.api import Api, Server
from tests.support.commands import Ran, Spindle


@pytest.fixture(autouse=True)
def fixed_log() -> Iterator[None]:
    """The API's thread logs to a stream that commands do not replace: CPython 3.11 crashes when it is, in a print."""
    before = structlog.get_config()
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.__stderr__))
    yield
    structlog.configure(**before)


@pytest.fixture
def api(server: Server, request: pytest.FixtureRequest) -> Api:
    return server.caller(f"cli {request.node.name}", "admin")


@pytest.fixture
def spindle(api: Api, monkeypatch: pytest.MonkeyPatch) -> Spindle:
    """The command as this organization's admin runs it."""
    monkeypatch.setenv("SPINDLE_URL", str(api.client.base_url))
    monkeypatch.setenv("SPINDLE_KEY", api.key)
    monkeypatch.setenv("COLUMNS", "200")
    return lambda *arguments: Ran.of(CliRunner().invoke(main, [str(each) for each in arguments]))
