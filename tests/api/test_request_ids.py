"""X-Request-ID: taken from the client or made, answered, and in each line of the log about the request."""

from __future__ import annotations

import re

import pytest

from tests.support.api import Api
from tests.support.service import PATIENCE_SECONDS, wait_until


@pytest.mark.parametrize("given", ["client-7f/3:a=b+c.d", "x" * 128])
def test_the_id_of_a_client_is_answered_and_logged(acme: Api, given: str, capfd: pytest.CaptureFixture[str]) -> None:
    answer = acme.call("GET", "/projects", headers={"X-Request-ID": given})
    assert answer.headers["x-request-id"] == given
    printed = list[str]()
    wait_until(lambda: printed.append(capfd.readouterr().out) or given in "".join(printed), PATIENCE_SECONDS)


@pytest.mark.parametrize("given", [None, "", "x" * 129, "two words", 'a"b'])
def test_another_request_has_a_new_one(acme: Api, given: str | None) -> None:
    headers = {} if given is None else {"X-Request-ID": given}
    answers = [acme.call("GET", "/projects/id/nothing", headers=headers) for _ in range(2)]
    ids = [answer.headers["x-request-id"] for answer in answers]
    assert all(re.fullmatch("[0-9a-f]{32}", each) for each in ids)
    assert ids[0] != ids[1]


def test_a_refused_request_has_one_too(acme: Api) -> None:
    answer = acme.client.get("/api/svc/api/projects", headers={"X-Request-ID": "mine"})
    assert (answer.status_code, answer.headers["x-request-id"]) == (401, "mine")
