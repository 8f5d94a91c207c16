"""Requests as a pipeline describes them: bodies from columns, a login, pages behind a cursor."""

from __future__ import annotations

import json
from email.parser import BytesParser
from email.policy import HTTP
from pathlib import Path

import pytest

from pipelines.contract.context import RunContext
from pipelines.page_cache.options import CacheOptions
from pipelines.pipeline import Pipeline
from tests.support.pipelines import TITLE, Run, crawl, find_problem, load_table
from tests.support.proxy import serve_proxy
from tests.support.request_site import RequestSite
from tests.support.trials import open_trial, try_rows

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
    numbers = [row["n"] for row in try_rows(plan, 10)]
    assert numbers == [*range(5)][: 2 * pages]
    assert len(requests.requests) == pages
    if "x=1" in fetch:
        assert requests.requests[1].path == "/api?x=1&after=2"


ITEMS = {
    "the header Link": ("url: '${B}/items', paginate: {next: link}", ["?offset=2", "?offset=4"]),
    "pages": (
        "url: '${B}/items?page%5Bnumber%5D=1&x=1', paginate: {page: 1, size: 2, total: $.total, param: 'page[number]'}",
        ["?x=1&page[number]=2", "?x=1&page[number]=3"],
    ),
    "offsets": ("url: '${B}/items', paginate: {offset: 0, size: 2, total: $.total}", ["?offset=2", "?offset=4"]),
    "offsets within an address": (
        "url: '${B}/items', paginate: {offset: 0, size: 2, total: $.total, url: '${B}/items?offset={next}'}",
        ["?offset=2", "?offset=4"],
    ),
    "GraphQL": (
        "url: '${B}/items', json: {variables: {first: 2}}, paginate: {next: $.cursor, param: variables.after}",
        ["", ""],
    ),
    "GraphQL by a path": (
        "url: '${B}/items', json: {query: q}, paginate: {next: $.cursor, param: $.variables.after}",
        ["", ""],
    ),
}


@pytest.mark.parametrize(("fetch", "paths"), ITEMS.values(), ids=ITEMS)
def test_pages_are_found_by_header_number_and_nested_cursor(
    fetch: str, paths: list[str], run: Run, requests: RequestSite
) -> None:
    text = f"fetch: {{{fetch}}}\npipeline:\n- {{stage: flatSelect, args: [$.items, {{selector: $.n, as: n}}]}}"
    text += "\nspindle: {keepColumns: [_error]}"
    rows = run(text, B=requests.url)
    assert [row["n"] for row in rows] == [*range(5)]
    error = None
    if "json" in fetch:
        error = f"page 3 of {requests.url}/items names its own cursor for the next page, so it is taken as the last one"
        assert [json.loads(each.body)["variables"].get("after") for each in requests.requests[1:]] == ["2", "4"]
    assert [row["_error"] for row in rows] == [None] * 4 + [error]
    assert [each.path.removeprefix("/items") for each in requests.requests[1:]] == paths
    requests.requests.clear()
    plan = Pipeline.from_yaml(text).plan({"B": requests.url})
    with open_trial(plan, 10) as trial:
        assert [(row.values["n"], row.fetched.error) for row in trial.iter_rows()] == [
            (row["n"], row["_error"]) for row in rows
        ]


def test_a_page_that_answers_as_one_before_is_the_end_with_a_sentence(run: Run, requests: RequestSite) -> None:
    text = """
fetch: {url: "${B}/items?offset=2", paginate: {offset: 2, size: 2, next: $.items}}
pipeline: [{stage: flatSelect, args: [$.items, {selector: $.n, as: n}]}]
spindle: {keepColumns: [_error], maxFailureRatio: 1}
"""
    rows = run(text, B=requests.url)
    assert [row["n"] for row in rows] == [2, 3, 4, None]
    page = f"page 3 of {requests.url}/items?offset=2"
    assert rows[-1]["_error"] == f"{page} answers the same as a page before, so it is taken as the last one"
    assert len(requests.requests) == 3


def test_fields_and_files_are_sent_as_multipart(run: Run, requests: RequestSite, tmp_path: Path) -> None:
    fields = '{a: [1, 2], name: $name, none: null, "q\\"": {filename: "x\\".csv", content: "n\\n1", type: text/csv}}'
    stages = f"- {{stage: wget, args: ['{requests.url}/p', {{multipart: {fields}}}]}}\n- {TITLE}\n"
    run(load_table(tmp_path, "name\nÄ\n", stages))
    (sent,) = requests.requests
    body = f"Content-Type: {sent.headers['content-type']}\r\n\r\n".encode() + sent.body.encode()
    sent_parts = BytesParser(policy=HTTP).parsebytes(body).iter_parts()
    parts = [(each["Content-Disposition"], each.get_content_type(), each.get_payload()) for each in sent_parts]
    assert (sent.method, len(parts)) == ("POST", 4)
    assert parts[0] == ('form-data; name="a"', "text/plain", "1")
    assert parts[1] == ('form-data; name="a"', "text/plain", "2")
    assert parts[3] == ('form-data; name="q%22"; filename="x%22.csv"', "text/csv", "n\n1")
    assert 'name="name"\r\n\r\nÄ\r\n' in sent.body


@pytest.mark.parametrize(
    ("paginate", "reason"),
    [
        ("{}", "give 'next', or 'page' or 'offset' with 'total'"),
        ("{page: 1}", "give 'next', or 'page' or 'offset' with 'total'"),
        ("{page: 1, offset: 0, next: a}", "give either 'page' or 'offset', not both"),
        ("{page: 1, total: $.total}", "need 'size'"),
        ("{next: a, size: 1, total: $.total}", "needs 'page' or 'offset'"),
    ],
)
def test_a_pagination_without_an_end_is_a_problem(paginate: str, reason: str) -> None:
    text = f"fetch: {{url: 'http://a/', paginate: {paginate}}}\npipeline: [{{stage: echo}}]"
    assert reason in str(find_problem(text))


def test_pages_behind_cursors_are_rows_of_a_run(run: Run, requests: RequestSite) -> None:
    text = f"""
pipeline:
- {{stage: wget, args: ["${{B}}/api", {{json: {{limit: 2}}, paginate: {CURSOR}}}]}}
- {{stage: flatSelect, args: [$.items, {{selector: $.n, as: n}}]}}
- {{stage: wget, args: ["${{B}}/api?n=1", {{paginate: {CURSOR}}}]}}
- {{stage: flatSelect, args: [$.items, {{selector: $.n, as: m}}]}}
"""
    rows = run(text, B=requests.url)
    assert [(row["n"], row["m"]) for row in rows] == [(n, m) for n in range(5) for m in range(5)]
    sent = [json.loads(each.body) for each in requests.requests if each.method == "POST"]
    assert sent == [{"limit": 2}, {"limit": 2, "after": "2"}, {"limit": 2, "after": "4"}]
    assert len(requests.requests) == 6


@pytest.mark.long
def test_no_link_of_a_page_gets_the_credentials_of_another_site(
    run: Run, requests: RequestSite, other_requests: RequestSite, tmp_path: Path
) -> None:
    source = tmp_path / "in.json"
    links = [f"{requests.url}/next?{each.url}/linked" for each in (requests, other_requests)]
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
    assert {each.method for each in other_requests.requests} == {"GET"}
    assert not any(word in str(each) for each in other_requests.requests for word in ("abcdef", "hidden!"))


def test_pages_that_came_through_a_proxy_are_kept_for_its_users_alone(
    run: Run, requests: RequestSite, tmp_path: Path
) -> None:
    context = RunContext(cache=CacheOptions(shared=str(tmp_path), lifetime_seconds=3600))
    text = crawl(f"{requests.url}/", TITLE, options='robots: ignore, proxies: ["${PROXY}"]')
    with serve_proxy() as first, serve_proxy() as second:
        for proxy in (first, second, first):
            assert run(text, context, PROXY=proxy.url) == [{"title": "GET /"}]
    assert [len(proxy.requests) for proxy in (first, second)] == [1, 1]


def test_a_trial_sends_the_same_requests(requests: RequestSite) -> None:
    plan = Pipeline.from_yaml(LOGIN).plan({"B": requests.url, "PASSWORD": "$ecret"})
    assert [row["title"] for row in try_rows(plan, 10)] == MEMBERS
    assert [each.method for each in requests.requests if each.path == "/login"] == ["POST"]
