from __future__ import annotations

from collections.abc import Generator

import pytest

from core.data.files.process import FileReader
from core.data.files.upload_conversion import convert_file
from tests.api.operations import OPENAPI
from tests.support.answers import SEEN, find_unlisted
from tests.support.api import Api, Job, Server


@pytest.fixture(scope="session", autouse=True)
def check_answers() -> Generator[None]:
    """At the end, compare the statuses and codes of all answers with those that the OpenAPI file lists."""
    yield
    unlisted = "\n".join(find_unlisted(OPENAPI, SEEN))
    assert not unlisted, f"list them in `responses=answers(...)`, or in CODES:\n{unlisted}"


@pytest.fixture(scope="session")
def acme(server: Server) -> Api:
    return server.caller("acme", "admin")


@pytest.fixture(scope="session")
def rival(server: Server) -> Api:
    return server.caller("rival", "admin")


@pytest.fixture
def read_uploads_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read uploaded files in this process: tests of what becomes of many files need no process for each."""
    monkeypatch.setattr(FileReader, "convert", lambda _, request: convert_file(request))


@pytest.fixture
def job(acme: Api, request: pytest.FixtureRequest) -> Job:
    return acme.job(request.node.name)
