"""The pages that an execution could not fetch, over REST and with `spindle failures`."""

from __future__ import annotations

import json
from typing import Any

from core.infra.storage.protocol import failures_key
from tests.support.api import Api, Job
from tests.support.stored import store_text

COUNTS: list[dict[str, Any]] = [
    {"status": 404, "reason": "http-status", "pages": 12_345, "addresses": ["http://shop.test/0"]},
    {"status": None, "reason": "timeout", "pages": 1, "addresses": ["http://slow.test/"]},
]


def _make_page(number: int) -> dict[str, Any]:
    return {
        "url": f"http://shop.test/{number}",
        "status": 404,
        "reason": "http-status",
        "message": "the server answered 404",
        "stage": "s02_wgetJoin",
        "line": 4,
        "attempts": 1,
    }


def _store(api: Api, execution: str, pages: int, attempt: int = 1) -> None:
    lines = [{"counts": COUNTS}, *map(_make_page, range(pages))]
    text = "".join(f"{json.dumps(line)}\n" for line in lines)
    store_text(api.settings, failures_key(api.organization_id, execution, attempt), text)


def test_failures_come_in_pages_and_all_are_counted(acme: Api, job: Job) -> None:
    execution = job.execute()
    path = f"{job.path}/executions/{execution}/failures"
    assert acme.get(path) == {"pages": 0, "counts": [], "failures": []}
    _store(acme, execution, 5)
    whole = acme.get(path)
    assert whole["pages"] == 12_346
    assert [(each["status"], each["reason"], each["pages"]) for each in whole["counts"]] == [
        (404, "http-status", 12_345),
        (None, "timeout", 1),
    ]
    assert whole["failures"] == [_make_page(number) for number in range(5)]
    found, query = [], {"limit": "2"}
    for expected in (2, 2, 1):
        answer = acme.call("GET", path, params=query)
        found += answer.json()["failures"]
        assert len(answer.json()["failures"]) == expected
        assert ("next" in answer.links) == (expected == 2)
        query = {"limit": "2", "cursor": str(len(found))}
    assert found == whole["failures"]


def test_failures_belong_to_an_attempt_of_the_organizations_execution(acme: Api, job: Job) -> None:
    execution = job.execute()
    _store(acme, execution, 1)
    path = f"{job.path}/executions/{execution}/failures"
    job.report(execution, "FAILED", errorMessage="closed")
    acme.post(f"{job.path}/executions/{execution}/retry")
    assert acme.get(path)["pages"] == 0
    assert len(acme.get(path, attempt=1)["failures"]) == 1
    assert acme.call("GET", path, params={"attempt": "3"}).status_code == 404
    assert acme.call("GET", f"{job.path}/executions/none/failures").status_code == 404
    assert acme.call("GET", path, params={"cursor": "x"}).json()["details"][0]["code"] == "invalid-cursor"
