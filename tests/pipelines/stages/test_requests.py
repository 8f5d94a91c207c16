"""Requests as a pipeline describes them: bodies from columns, a login, pages behind a cursor."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipelines.page_cache.options import CacheOptions
from pipelines.pipeline import Pipeline
from pipelines.planning.context import RunContext
from pipelines.planning.model import make_fetch_options
from pipelines.trial import Trial
from tests.support.fetching import LOOPBACK
from tests.support.pipelines import Run
from tests.support.proxy import serve_proxy
from tests.support.request_site import RequestSite, serve_requests

LOGIN = """
fetch: {url: "${B}/login", form: {user: me, password: "${PASSWORD}"}}
pipeline:
- {stage: extract, args: [{selector: h1, as: greeting}]}
- {stage: wgetJoin, args: [a]}
- {stage: extract, args: [{selector: h1, as: title}]}
- {stage: wgetExplore, args: [a, 1]}
spindle: {session: true, keepColumns: [_status], headers: {Accept-Language: de, X-Token: $greeting}}
"""
MEMBERS = [f"/m{number}" for number in range(1, 5)]


@pytest.fixture
def requests() -> Iterator[RequestSite]:
    with serve_requests() as site:
        yield site


@pytest.fixture
def other() -> Iterator[RequestSite]:
    with serve_requests() as site:
        yield site


def test_a_login_by_form_happens_once_and_its_cookie_is_kept(run: Run, requests: RequestSite, tmp_path: Path) -> None:
    context = RunContext(cache=CacheOptions(shared=str(tmp_path)))
    rows = run(LOGIN, context, B=requests.url, PASSWORD="$ecret")
    assert [(row["title"], row["_status"]) for row in rows] == [(path, 200) for path in MEMBERS]
    login, *others = requests.requests
    assert (login.method, login.body) == ("POST", "user=me&password=%24ecret")
    assert sorted(each.path for each in others) == ["/", *MEMBERS]
    assert {each.headers["accept-language"] for each in requests.requests} == {"de"}
    assert {each.headers.get("x-token") for each in others} == {None, "GET /"}, "only where there is the column"
    assert not [*tmp_path.glob("**/*.sqlite")], "pages of a session are not kept for others"


@pytest.mark.long
def test_a_body_is_made_of_the_row(run: Run, requests: RequestSite, tmp_path: Path) -> None:
    source = tmp_path / "in.json"
    source.write_text("".join(json.dumps({"n": number, "bad": bad}) + "\n" for number, bad in ((1, "x"), (1, "x\ny"))))
    text = f"""
pipeline:
- {{stage: load_json, args: ["{source}"]}}
- {{stage: wget, args: ["{requests.url}/p", {{json: {{deep: [{{n: $n}}]}}, method: patch}}]}}
- {{stage: extract, args: [{{selector: h1, as: said}}]}}
- {{stage: wget, args: ["{requests.url}/q", {{headers: {{X-Bad: $bad}}}}]}}
spindle: {{keepColumns: [_error], maxFailureRatio: 1}}
"""
    rows = run(text)
    assert [row["said"] for row in rows] == ['PATCH /p {"deep": [{"n": 1}]}'] * 2
    assert [row["_error"] is None for row in rows] == [True, False]
    assert "X-Bad" in rows[1]["_error"]
    assert [each.path for each in requests.requests] == ["/p", "/p", "/q"]


@pytest.mark.parametrize("stage", ["wgetJoin", "visitJoin"])
def test_a_login_by_trace_happens_once(stage: str, run: Run, requests: RequestSite) -> None:
    text = f"""
fetch:
  url: "${{B}}/login"
  traces:
  - {{action: type, params: {{selector: input, text: "${{PASSWORD}}"}}}}
  - {{action: click, params: {{selector: button}}}}
  - {{action: wait_for, params: {{selector: a}}}}
pipeline:
- {{stage: {stage}, args: [a]}}
- {{stage: extract, args: [{{selector: h1, as: title}}]}}
spindle: {{session: true, keepColumns: [_status]}}
"""
    rows = run(text, B=requests.url, PASSWORD="$ecret")
    assert [(row["title"], row["_status"]) for row in rows] == [(path, 200) for path in MEMBERS]
    assert [each.method for each in requests.requests if each.path == "/login"] == ["GET", "POST"]


CURSOR = "{next: $.cursor, param: after}"


@pytest.mark.parametrize(
    ("fetch", "most", "pages"),
    [
        (f"url: '${{B}}/api?after=0&x=1', paginate: {CURSOR}", 9, 3),
        ("url: '${B}/api', paginate: {next: $.next}", 2, 2),
        ("url: '${B}/api', paginate: {next: $.cursor, url: '${B}/api?after={next}'}", 9, 3),
        (f"url: '${{B}}/api', json: {{limit: 2}}, paginate: {CURSOR}", 9, 3),
    ],
)
def test_the_pages_behind_a_cursor_are_rows(fetch: str, most: int, pages: int, requests: RequestSite) -> None:
    text = f"fetch: {{{fetch}}}\npipeline:\n- {{stage: flatSelect, args: [$.items, {{selector: $.n, as: n}}]}}"
    text += f"\nspindle: {{maxPages: {most}}}"
    plan = Pipeline.from_yaml(text).plan({"B": requests.url})
    with Trial(plan, make_fetch_options(plan.options, LOOPBACK), 10) as trial:
        numbers = [row.values["n"] for row in trial.iter_rows()]
    assert numbers == [*range(5)][: 2 * pages]
    assert len(requests.requests) == pages
    if "x=1" in fetch:
        assert requests.requests[1].path == "/api?x=1&after=2"


def test_pages_behind_cursors_are_rows_of_a_run(run: Run, requests: RequestSite) -> None:
    rows = run(
        f"""
pipeline:
- {{stage: wget, args: ["${{B}}/api", {{json: {{limit: 2}}, paginate: {CURSOR}}}]}}
- {{stage: flatSelect, args: [$.items, {{selector: $.n, as: n}}]}}
- {{stage: wget, args: ["${{B}}/api?n=1", {{paginate: {CURSOR}}}]}}
- {{stage: flatSelect, args: [$.items, {{selector: $.n, as: m}}]}}
""",
        B=requests.url,
    )
    assert [(row["n"], row["m"]) for row in rows] == [(n, m) for n in range(5) for m in range(5)]
    assert [each.body for each in requests.requests if each.method == "POST"] == [
        '{"limit": 2}',
        '{"limit": 2, "after": "2"}',
        '{"limit": 2, "after": "4"}',
    ]
    assert len(requests.requests) == 6


@pytest.mark.long
def test_no_link_of_a_page_gets_the_credentials_of_another_site(
    run: Run, requests: RequestSite, other: RequestSite, tmp_path: Path
) -> None:
    source = tmp_path / "in.json"
    links = [f"{requests.url}/next?{each.url}/linked" for each in (requests, other)]
    source.write_text("\n".join(json.dumps({"url": url}) for url in links))
    key = "{headers: {X-Api-Key: abcdef, X-Shop: 'hidden!'}"
    text = f"""
pipeline:
- {{stage: load_json, args: ["{source}"]}}
- {{stage: wget, args: [$url, {key}, paginate: {{next: a.next}}}}]}}
- {{stage: wgetJoin, args: [a.next, Inner, {key}}}]}}
- {{stage: wget, args: [$url, {{form: {{password: abc}}, paginate: {{next: a.next}}}}]}}
- {{stage: wgetJoin, args: [a.next, {{form: {{password: "hidden!"}}}}]}}
spindle: {{maxFailureRatio: 1}}
"""
    run(text, RunContext(cache=CacheOptions(secrets=("hidden!",))))
    own = [{*each.headers.values()} for each in requests.requests if each.path == "/linked" and each.method == "GET"]
    assert {"abcdef", "hidden!"} <= own[0], "of the next page at the same host"
    assert {each.method for each in other.requests} == {"GET"}
    assert not any(word in str(each) for each in other.requests for word in ("abcdef", "hidden!"))


def test_pages_that_came_through_a_proxy_are_kept_for_its_users_alone(
    run: Run, requests: RequestSite, tmp_path: Path
) -> None:
    context = RunContext(cache=CacheOptions(shared=str(tmp_path), lifetime_seconds=3600))
    text = """
fetch: {url: "${B}/"}
pipeline: [{stage: extract, args: [{selector: h1, as: title}]}]
spindle: {robots: ignore, proxies: ["${PROXY}"]}
"""
    with serve_proxy() as first, serve_proxy() as second:
        for proxy in (first, second, first):
            assert run(text, context, B=requests.url, PROXY=proxy.url) == [{"title": "GET /"}]
    assert [len(proxy.requests) for proxy in (first, second)] == [1, 1]


def test_a_trial_sends_the_same_requests(requests: RequestSite) -> None:
    plan = Pipeline.from_yaml(LOGIN).plan({"B": requests.url, "PASSWORD": "$ecret"})
    with Trial(plan, make_fetch_options(plan.options, LOOPBACK), 10) as trial:
        titles = [row.values["title"] for row in trial.iter_rows()]
    assert titles == MEMBERS
    assert [each.method for each in requests.requests if each.path == "/login"] == ["POST"]
