"""Both runners and a trial send each request that is written, in order, unless it is a plain GET that nothing uses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipelines.pipeline import Pipeline
from pipelines.planning.plan import Plan
from pipelines.trial import TrialPages
from tests.support.request_site import RequestSite
from tests.support.runners import Runners
from tests.support.trials import open_trial

POST_LOGIN = "fetch: {url: '${B}/login', method: POST, form: {password: '${PASSWORD}'}}\n"
TITLE = "- {stage: extract, args: [{selector: h1, as: title}]}\n"
SESSION = "spindle: {session: true}\n"
ORDER = "- {stage: wget, args: ['${B}/order', {form: {n: 1}}]}\n"
FORM = "- {stage: wget, args: ['${B}/csrf', {form: {token: t-1, password: '${PASSWORD}'}}]}\n"
ACCOUNT = "- {stage: wget, args: ['${B}/account']}\n"
LOAD = "- {stage: load_csv, args: ['${FOLDER}/in.csv']}\n- {stage: wget, args: [$page]}\n"
SENT: Mapping[str, tuple[str, Sequence[str], Sequence[str | None]]] = {
    "a form before an address": (
        f"fetch: {{url: '${{B}}/form', form: {{a: b}}}}\npipeline:\n{ACCOUNT}{TITLE}",
        ["POST /form", "GET /account"],
        [None],
    ),
    "two forms": (f"pipeline:\n{ORDER}{ORDER}{TITLE}", ["POST /order", "POST /order"], ["POST /order n=1"]),
    "a login before an address": (
        f"{POST_LOGIN}pipeline:\n{ACCOUNT}{TITLE}{SESSION}",
        ["POST /login", "GET /", "GET /account"],
        ["Ann"],
    ),
    "the cookies of a page": (
        f"fetch: {{url: '${{B}}/csrf'}}\npipeline:\n{FORM}{TITLE}{SESSION}",
        ["GET /csrf", "POST /csrf", "GET /account"],
        ["Ann"],
    ),
    "a page before and after a login": (
        f"fetch: {{url: '${{B}}/account'}}\npipeline:\n- {{stage: wget, args: ['${{B}}/csrf']}}\n"
        f"{FORM}{ACCOUNT}{TITLE}{SESSION}",
        ["GET /account", "GET /csrf", "POST /csrf", "GET /account", "GET /account"],
        ["Ann"],
    ),
    "a login before a file": (
        f"{POST_LOGIN}pipeline:\n{LOAD}{TITLE}{SESSION}",
        ["POST /login", "GET /", "GET /m1"],
        ["/m1"],
    ),
    "a login before a sitemap": (
        f"{POST_LOGIN}pipeline:\n- {{stage: sitemap, args: ['${{B}}/sitemap.xml']}}\n{TITLE}{SESSION}",
        ["POST /login", "GET /", "GET /sitemap.xml", "GET /m1"],
        ["/m1"],
    ),
    "a login before a reset": (
        f"{POST_LOGIN}pipeline:\n- {{stage: reset}}\n{ACCOUNT}{TITLE}{SESSION}",
        ["POST /login", "GET /", "GET /account"],
        ["Ann"],
    ),
    "a header of its own": (
        f"fetch: {{url: '${{B}}/x', headers: {{X-A: b}}}}\npipeline:\n{ACCOUNT}{TITLE}",
        ["GET /x", "GET /account"],
        [None],
    ),
    "a cookie of a redirect": (
        f"fetch: {{url: '${{B}}/do/x?cookie=a%3D1&to=/do/end'}}\npipeline:\n{TITLE}",
        ["GET /do/x?cookie=a%3D1&to=/do/end", "GET /do/end"],
        ["GET a=1"],
    ),
    "a page that leads on": (
        f"fetch: {{url: '${{B}}/do/x?refresh=3;url=/do/end'}}\npipeline:\n{TITLE}",
        ["GET /do/x?refresh=3;url=/do/end", "GET /do/end"],
        ["GET no cookie"],
    ),
    "a redirected form of PUT": (
        f"fetch: {{url: '${{B}}/do/x?to=/do/end', method: PUT, form: {{n: 1}}}}\npipeline:\n{TITLE}",
        ["PUT /do/x?to=/do/end", "PUT /do/end"],
        ["PUT n=1 no cookie"],
    ),
    "a decimal in JSON": (
        "fetch: {url: '${B}/do/x?body=<b>12,50</b><i>7</i>'}\npipeline:\n"
        "- {stage: extract, args: [{selector: b, cast: 'decimal(8,2)', as: b}, "
        "{selector: i, cast: 'decimal(8,2)', as: i}]}\n"
        f"- {{stage: wget, args: ['${{B}}/do/end', {{json: {{of: [$b, $i]}}}}]}}\n{TITLE}",
        ["GET /do/x?body=%3Cb%3E12,50%3C/b%3E%3Ci%3E7%3C/i%3E", "POST /do/end"],
        ['POST {"of": [12.5, 7]} no cookie'],
    ),
    "a deleted cookie": (
        f"fetch: {{url: '${{B}}/do/1?cookie=a%3D1'}}\npipeline:\n"
        "- {stage: wget, args: ['${B}/do/2?cookie=a%3D%3BMax-Age%3D0']}\n"
        f"- {{stage: wget, args: ['${{B}}/do/end']}}\n{TITLE}{SESSION}",
        ["GET /do/1?cookie=a%3D1", "GET /do/2?cookie=a%3D%3BMax-Age%3D0", "GET /do/end"],
        ["GET no cookie"],
    ),
    "a cookie of the pipeline and the session": (
        f"fetch: {{url: '${{B}}/do/1?cookie=a%3D1'}}\npipeline:\n"
        f"- {{stage: wget, args: ['${{B}}/do/end', {{cookies: {{a: own}}}}]}}\n{TITLE}{SESSION}",
        ["GET /do/1?cookie=a%3D1", "GET /do/end"],
        ["GET a=own"],
    ),
    "further pages": (
        f"fetch: {{url: '${{B}}/api?after=2', paginate: {{next: $.next}}}}\npipeline:\n{ORDER}{TITLE}",
        ["GET /api?after=2", "GET /api?after=4", "POST /order", "POST /order"],
        ["POST /order n=1"] * 2,
    ),
}
UNSENT: Mapping[str, tuple[str, Sequence[str], int]] = {
    "an address": (f"fetch: {{url: '${{B}}/x'}}\npipeline:\n{ACCOUNT}{TITLE}", ["GET /account"], 1),
    "an address before a form": (f"pipeline:\n{ACCOUNT}{ORDER}{TITLE}", ["POST /order"], 2),
    "a file": (f"fetch: {{url: '${{B}}/x'}}\npipeline:\n{LOAD}{TITLE}spindle: {{maxFailureRatio: 1}}", ["GET /m1"], 1),
}


@pytest.fixture
def both(spark: SparkSession, requests: RequestSite, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Runners:
    (tmp_path / "in.csv").write_text(f"page\n{requests.url}/m1\n")
    return Runners(spark, tmp_path, caplog, None)


def list_sent(site: RequestSite) -> list[str]:
    return [f"{method} {path}" for method, path in site.take_sent()]


def run_everywhere(
    plan: Plan, both: Runners, requests: RequestSite
) -> dict[str, tuple[list[str], Sequence[str | None]]]:
    """Return by runner what a plan sends and the titles of its rows."""
    found = dict[str, tuple[list[str], Sequence[str | None]]]()
    for name, run in (("local", both.run_locally), ("spark", both.run_on_spark)):
        outcome = run(plan)
        assert outcome.failure is None
        found[name] = list_sent(requests), [row["title"] for row in outcome.preview]
    with open_trial(plan) as trial:
        titles = [row.values["title"] for row in trial.iter_rows()]
        found["trial"] = list_sent(requests), [None if each is None else str(each) for each in titles]
    return found


@pytest.mark.long
@pytest.mark.parametrize(("text", "sent", "titles"), SENT.values(), ids=SENT)
def test_every_request_with_an_effect_is_sent_in_order(
    text: str, sent: Sequence[str], titles: Sequence[str | None], both: Runners, requests: RequestSite, tmp_path: Path
) -> None:
    plan = both.plan(text, B=requests.url, PASSWORD="$ecret", FOLDER=str(tmp_path))
    assert not plan.warnings
    for name, (requested, shown) in run_everywhere(plan, both, requests).items():
        is_interleaved = name == "trial" and len(titles) > 1  # it takes a row as far as it can before the next one
        assert (sorted(requested), shown) == (sorted(sent), titles), name
        assert is_interleaved or requested == sent, name


@pytest.mark.parametrize(("text", "sent", "line"), UNSENT.values(), ids=UNSENT)
def test_a_plain_get_that_nothing_uses_is_not_sent_with_a_warning(
    text: str, sent: Sequence[str], line: int, both: Runners, requests: RequestSite, tmp_path: Path
) -> None:
    plan = both.plan(text, B=requests.url, PASSWORD="$ecret", FOLDER=str(tmp_path))
    assert [(each.code, each.line) for each in plan.warnings] == [("not-sent", line)]
    for name, (found, _) in run_everywhere(plan, both, requests).items():
        assert found == sent, name


TOKEN = "- {stage: extract, args: [{selector: 'input[name=token]', method: 'attr:value', as: token, required: true}]}\n"
RECIPE = f"""
fetch: {{url: '${{B}}/csrf'}}
pipeline:
{TOKEN}
- {{stage: wget, args: ['${{B}}/csrf', {{form: {{token: $token, password: '${{PASSWORD}}'}}}}]}}
{{stages}}
- {{stage: extract, args: [{{selector: h1, as: title, required: true}}]}}
{SESSION}
"""
GREETING = "- {stage: extract, args: [{selector: .name, as: name, required: true}]}\n"
FOLLOW = "- {stage: wgetJoin, args: [a.order]}"
FOLLOW_INNER = "- {stage: wgetJoin, args: [a.order, Inner]}"
SEGMENTS = "- {stage: flatSelect, args: [a.order, {method: href, as: page}]}\n- {stage: wget, args: [$page]}"
UNREAD = "- {stage: wget, args: ['${B}/m1']}"
FAILURES = {
    "a greeting": (GREETING + FOLLOW, "line 7: extract: selector .name (column name) found nothing on 1 of 1 page"),
    "links": (FOLLOW, "line 7: wgetJoin: a.order found no link on the pages before it"),
    "links, rows without are dropped": (
        FOLLOW_INNER,
        "line 7: wgetJoin: a.order Inner found no link on the pages before it",
    ),
    "segments": (SEGMENTS, "line 7: flatSelect: selector a.order found nothing on 1 of 1 page"),
    "a page for members": (UNREAD, "line 7: wget: its page could not be read"),
}


@pytest.mark.long
@pytest.mark.parametrize(("stages", "error"), FAILURES.values(), ids=FAILURES)
def test_a_wrong_password_fails_a_run_with_required_selectors(
    stages: str, error: str, both: Runners, requests: RequestSite
) -> None:
    text = RECIPE.replace("{stages}", stages)
    wrong = both.plan(text, B=requests.url, PASSWORD="wrong")
    for run in (both.run_locally, both.run_on_spark):
        failure = run(wrong).failure
        assert failure[0] == error
    right = both.plan(text, B=requests.url, PASSWORD="$ecret")
    for run in (both.run_locally, both.run_on_spark):
        assert run(right).failure is None


def test_a_later_trial_with_the_same_pages_stays_logged_in_and_sends_the_form_once(requests: RequestSite) -> None:
    pages, found = TrialPages(), list[object]()
    for path in ("/m1", "/m2"):
        text = f"{POST_LOGIN}pipeline:\n- {{stage: wget, args: ['${{B}}{path}']}}\n{TITLE}{SESSION}"
        plan = Pipeline.from_yaml(text).plan({"B": requests.url, "PASSWORD": "$ecret"})
        with open_trial(plan, 10, pages=pages) as trial:
            found.extend(row.values["title"] for row in trial.iter_rows())
    assert found == ["/m1", "/m2"]
    assert list_sent(requests) == ["POST /login", "GET /", "GET /m1", "GET /m2"]
