"""Prompts in executions: a credential names the model, what was proven is kept, and a changed site is told."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import pytest

from core.infra.settings import Settings
from core.lifecycle.executions.spec import find_allowance
from core.tables import Execution
from tests.orchestration.test_run import EVENTS, ended_run, metadata
from tests.support.models import KEY, ModelServer, answer_truth, serve_model
from tests.support.service import DAILY_CALLS, Job, Json, Service
from tests.support.site import Site
from tests.support.templates import get_truth, make_listing, make_pages

PIPELINE = """
fetch: {{url: "{base}/"}}
pipeline:
  - {{stage: wgetJoin, args: [ul.list a]}}
  - {{stage: iextract, args: ["title as title and price as price"]}}
spindle: {{cache: 0, model: {{provider: OPENAI, maxCalls: 20}}}}
"""


@pytest.fixture
def model(service: Service) -> Generator[ModelServer]:
    """A model, which a credential of the organization names; what it finds is forgotten after the test."""
    with serve_model() as server, service.client() as client:
        secret = {"name": "rules", "provider": "OPENAI", "api_key": KEY, "endpoint": server.url}
        credential = service.post("/cloud-credentials", secret)["id"]
        yield server
        client.delete(f"/cloud-credentials/id/{credential}").raise_for_status()
        for each in service.get("/selectors"):  # the organization's, which the next test would begin with
            client.delete(f"/selectors/{each['id']}").raise_for_status()


def run(service: Service, job: Job) -> tuple[str, Json]:
    execution = service.execute(job)
    return execution, service.wait(job, execution)


@pytest.mark.long
def test_a_prompt_is_proven_once_replayed_and_told_when_the_site_changes(
    service: Service, web: Site, model: ModelServer
) -> None:
    pages = make_pages("classes", 8)
    model.rule = answer_truth(get_truth(*pages))
    base = web.serve({"/": make_listing(*pages), **{page.path: page.html for page in pages}})
    job = service.make_job(PIPELINE.format(base=base))

    _, status = run(service, job)
    assert status["status"] == "COMPLETED", status
    spent = status["progress"]["model"]
    assert 0 < spent["calls"] == len(model.requests) <= 5
    assert min(spent["tokensIn"], spent["tokensOut"]) > 0
    (record,) = [each for each in service.get("/selectors") if each["host"] == "127.0.0.1"]
    assert [field["name"] for field in record["fields"]] == ["title", "price"]

    model.requests.clear()
    second, status = run(service, job)
    assert (status["status"], model.requests) == ("COMPLETED", [])
    assert status["progress"]["model"] | {"cost": 0} == {
        **{"calls": 0, "tokensIn": 0, "tokensOut": 0, "cost": 0},
        "pages": {"selector": 8},
        "selectors": {record["id"]: 8},
        "hosts": {},
    }
    events = service.graphql(EVENTS, run=ended_run(service, second)["runId"])["logsForRun"]["events"]
    asset = metadata(next(event for event in events if "assetKey" in event))
    assert (asset["pages by proven selectors"]["intValue"], asset["model calls"]["intValue"]) == (8, 0)

    gone = {page.path: page.html.partition('<div class="box">')[0] + "<div><span></span></div>" for page in pages}
    web.serve({"/": make_listing(*pages), **gone})
    third, status = run(service, job)
    assert status["status"] == "COMPLETED", "only 'required' or a check fails a run"
    (check,) = status["progress"]["checks"]
    assert check["check"] == "selectors of 'price' on 127.0.0.1"
    assert (check["severity"], check["passed"]) == ("warn", False)
    failures = service.get(f"{job.path}/executions/{third}/failures")
    assert {each["reason"] for each in failures["failures"]} == {"unread"}


@pytest.mark.long
def test_an_organization_spends_no_more_than_its_day_allows(service: Service, web: Site, model: ModelServer) -> None:
    pages = [make_pages(template, 1, number)[0] for number, template in enumerate(("classes", "labels", "ids"))]
    model.rule = answer_truth(get_truth(*pages))
    base = web.serve({page.path: page.html for page in pages})

    def write_pipeline(*numbers: int) -> str:
        urls = ", ".join(f'"{base}{pages[number].path}"' for number in numbers)
        return (
            f"fetch: {{url: [{urls}]}}\npipeline:\n"
            "- {stage: iextract, args: ['title as title and price as price']}\n"
            "spindle: {model: {maxCalls: 20}, maxFailureRatio: 1}"
        )

    first, status = run(service, service.make_job(write_pipeline(0)))
    assert (status["status"], status["progress"]["model"]["calls"]) == ("COMPLETED", 1)

    with spend_all_calls_but(1, service, first):
        for calls in (1, 0):  # of the three that its pages need, in another project of the organization
            job = service.make_job(write_pipeline(0, 1, 2))
            model.requests.clear()
            execution, status = run(service, job)
            assert (status["status"], status["progress"]["model"]["calls"]) == ("COMPLETED", calls)
            assert len(model.requests) == calls
            failures = service.get(f"{job.path}/executions/{execution}/failures")["failures"]
            assert [each["reason"] for each in failures] == ["unread"] * (3 - calls)
            sentence = f"may exceed the budget of the rest of the organization's day, {calls} calls; it begins again"
            assert all(sentence in each["message"] for each in failures)


@contextmanager
def spend_all_calls_but(left: int, service: Service, execution: str) -> Generator[None]:
    """Let this execution have made so many calls that its organization has few left for the day."""
    settings = Settings(data=service.data, model_daily_calls=DAILY_CALLS)
    with service.database() as database:

        def add_calls(number: int) -> None:
            with database.write() as session:
                changed = session.get_one(Execution, execution)
                assert changed.progress is not None
                model = changed.progress["model"]
                changed.progress = {**changed.progress, "model": {**model, "calls": model["calls"] + number}}

        with database.read() as session:
            organization = session.get_one(Execution, execution).organization_id
            allowance = find_allowance(session, settings.model, organization)
        assert allowance is not None
        assert allowance.calls is not None
        spent = allowance.calls - left
        add_calls(spent)
        try:
            yield
        finally:
            add_calls(-spent)
