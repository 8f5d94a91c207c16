"""The browser's stages on real Spark and the real Chromium, against rows that are written down here."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest
from pydantic import ValidationError

from pipelines.browser.actions.elements import Click
from pipelines.contract.context import RunContext
from pipelines.errors import PipelineError, RunError
from pipelines.fetch.files import FileFolder
from pipelines.page_cache.options import CacheOptions
from pipelines.pipeline import Pipeline
from tests.support.browser_site import BrowserSite
from tests.support.pipelines import TITLE, Run, crawl

ONE, TWO = "One, by script", "Two"


def read_stage(stage: str) -> object:
    """Return a browser's stage as a pipeline reads it."""
    return Pipeline.from_yaml(crawl("http://a.test/", stage, options="keepColumns: [_url]")).plan().steps[1].stage


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("{stage: visitJoin, args: [a]}", "{stage: visit_join, args: [a]}"),
        ("{stage: visitJoin, args: [a]}", "{stage: VISITJOIN, args: [a]}"),
        ("{stage: visitExplore, args: [a, 2]}", "{stage: visit_explore, args: [a, {depth: 2}]}"),
        ("{stage: visitExplore, args: [a, 2]}", "{stage: visitExplore, args: {selector: a, depth: 2, traces: []}}"),
    ],
)
def test_names_ignore_case_and_underscores_and_forms_of_arguments_are_equal(one: str, other: str) -> None:
    assert read_stage(one) == read_stage(other)


def test_join_in_the_browser_gives_a_row_per_link(run: Run, browser_site: BrowserSite) -> None:
    base, join = browser_site.url, '{stage: visitJoin, args: ["li a", {joinType: inner}]}'
    rows = run(crawl(f"{base}/", join, TITLE, options="keepColumns: [_url, _linkText, _status]"))
    assert [tuple(row.values()) for row in rows] == [(ONE, f"{base}/one", "One", 200), (TWO, f"{base}/two", "Two", 200)]


def test_explore_in_the_browser_visits_each_page_once(run: Run, browser_site: BrowserSite) -> None:
    browser_site.requests.clear()
    explore = "{stage: visit_explore, args: [a, 2]}"
    rows = run(crawl(f"{browser_site.url}/", explore, TITLE, options="keepColumns: [_depth]"))
    assert [tuple(row.values()) for row in rows] == [("Home", 0), (ONE, 1), (TWO, 1), ("Three", 2)]
    assert [browser_site.requests[path] for path in ("/one", "/two", "/three")] == [1, 1, 1]


@pytest.mark.parametrize("traces", ["", ", traces: [{factory: WAIT, params: {seconds: 0.05}}]"])
def test_without_a_prefix_the_pipelines_fetch_decides(run: Run, browser_site: BrowserSite, traces: str) -> None:
    deeper = "{stage: explore, args: [a, 1]}", TITLE.replace("as: title", "as: deeper")
    text = crawl(f"{browser_site.url}/", '{stage: join, args: ["li a"]}', TITLE, *deeper)
    rows = run(text.replace("/'}", f"/'{traces}}}", 1))
    by_script = ONE if traces else None
    assert [tuple(row.values()) for row in rows] == [(by_script, by_script), (TWO, TWO), (TWO, "Three")]


def test_the_plan_shows_the_chosen_options(browser_site: BrowserSite) -> None:
    def keys(traces: str) -> list[str]:
        text = f"fetch: {{url: 'http://a.b/'{traces}}}\npipeline:\n- {{stage: Join, args: [a]}}\n"
        plan = Pipeline.from_yaml(f"{text}- {{stage: EXPLORE, args: [a]}}\nspindle: {{keepColumns: [_url]}}").plan()
        return [step.key for step in plan.steps]

    assert keys("") == ["s01_fetch", "s02_wgetJoin", "s03_wgetExplore", "s04_output"]
    assert keys(", traces: []") == ["s01_fetch", "s02_visitJoin", "s03_visitExplore", "s04_output"]


def test_visit_takes_a_url_a_column_or_the_page_before(run: Run, browser_site: BrowserSite) -> None:
    rows = run(
        """
pipeline:
  - {stage: visit, args: ["${BASE}/two"]}
  - {stage: extract, args: [{selector: h1, as: title}, {selector: "a:last-of-type", method: href, as: $last}]}
  - {stage: visit, args: [$"$last", {traces: [{action: wait, params: {seconds: 0}}]}]}
  - {stage: extract, args: [{selector: h1, as: next}, {selector: b, as: none}]}
  - {stage: visit, args: {url: $none}}
  - {stage: extract, args: [{selector: h1, as: nothing}]}
""",
        BASE=browser_site.url,
    )
    assert rows == [
        {"title": TWO, "$last": f"{browser_site.url}/three", "next": "Three", "none": None, "nothing": None}
    ]


def test_traces_of_a_fetch_and_their_screenshot(run: Run, browser_site: BrowserSite, tmp_path: Path) -> None:
    rows = run(
        """
fetch:
  url: "${BASE}/shop"
  traces:
    - {action: wait_for, params: {selector: li}}
    - {action: Screenshot, params: {as: picture}}
    - {factory: snapshot}
    - {action: click, params: {selector: "#next"}}
    - {action: snapshot}
pipeline:
  - {stage: flatSelect, args: [li, {method: text, as: item}]}
""",
        RunContext(files=FileFolder(str(tmp_path / "files"), "files")),
        BASE=browser_site.url,
    )
    assert [row["item"] for row in rows] == ["item 1.1", "item 1.2", "item 2.1", "item 2.2"]
    (path,) = {row["picture"] for row in rows}
    picture = (tmp_path / "files" / path.removeprefix("files/")).read_bytes()
    assert picture.startswith(b"\x89PNG\r\n\x1a\n")
    assert path == f"files/{sha256(picture).hexdigest()}"


@pytest.mark.long
def test_pages_that_fail_are_rows_with_an_error(run: Run, browser_site: BrowserSite) -> None:
    first = '{stage: extract, args: [{selector: "li:first-child a", method: href, as: one}]}'
    click = """{action: click, params: {selector: "a[href='/three']", timeout: 3}}"""
    join = f'{{stage: visitJoin, args: ["li a", {{traces: [{click}]}}]}}'
    kept = "keepColumns: [_status, _error], maxFailureRatio: 0.5"
    rows = run(crawl(f"{browser_site.url}/", first, join, options=kept))
    one = f"{browser_site.url}/one"
    error = "action 1, click a[href='/three']: nothing to act on came within 3 s"
    assert [tuple(row.values()) for row in rows] == [(one, 200, error), (one, 200, None)]


def test_half_characters_of_a_page_end_no_run(run: Run, browser_site: BrowserSite) -> None:
    half = "'a\\ud800b'"
    browser_site.pages["/half"] = (
        f"<a href=/throws>a</a><h1></h1><script>document.querySelector('h1').append({half})</script>"
    )
    browser_site.pages["/throws"] = f"<script>scrollBy = () => {{ throw new Error({half}) }}</script>"
    join = "{stage: visitJoin, args: [a, {traces: [{action: scroll_to_bottom}]}]}"
    text = crawl(f"{browser_site.url}/half", TITLE, join, options="keepColumns: [_error], maxFailureRatio: 1")
    rows = run(text.replace("/half'", "/half', traces: []"))
    assert [tuple(row.values()) for row in rows] == [("a\ufffdb", None)]


def test_visits_keep_to_robots_txt_and_fetch_no_page_twice(run: Run, browser_site: BrowserSite) -> None:
    browser_site.requests.clear()
    browser_site.pages["/robots.txt"] = "User-agent: Spindle\nDisallow: /two\n"
    visit = f"{{stage: visit, args: ['{browser_site.url}/%s']}}"
    again = TITLE.replace("as: title", "as: again")
    stages = visit % "", "{stage: visitJoin, args: ['li a']}", TITLE, visit % "one", again
    rows = run(f"pipeline: [{', '.join(stages)}]\nspindle: {{maxFailureRatio: 1}}")
    del browser_site.pages["/robots.txt"]
    assert [tuple(row.values()) for row in rows] == [(ONE, ONE), (None, ONE)]
    assert [browser_site.requests[path] for path in ("/one", "/two")] == [1, 0]


def test_text_typed_by_a_trace_is_not_cached(run: Run, browser_site: BrowserSite, tmp_path: Path) -> None:
    text = """
fetch:
  url: "${BASE}/shop"
  traces:
    - {action: type, params: {selector: input, text: canary-5d1e}}
pipeline: [{stage: extract, args: [{selector: h1, as: title}]}]
"""
    rows = run(text, RunContext(cache=CacheOptions(shared=str(tmp_path))), BASE=browser_site.url)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert rows == [{"title": "Shop"}]
    assert files
    assert not any(b"canary-5d1e" in path.read_bytes() for path in files)


@pytest.mark.long
def test_workers_share_a_host_by_their_tabs(run: Run, browser_site: BrowserSite) -> None:
    browser_site.at_once = 0
    browser_site.pages["/many"] = "".join(f"<a href='/gather?{number}'>a</a>" for number in range(48))
    options = "engine: spark, keepColumns: [_status]"
    rows = run(crawl(f"{browser_site.url}/many", "{stage: visitJoin, args: [a, inner]}", options=options))
    assert [row["_status"] for row in rows] == [200] * 48
    assert browser_site.impatient < 8, "a worker has four tabs; the other one's came late"


def test_a_missing_browser_is_an_error_that_names_the_package(
    run: Run, browser_site: BrowserSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(RunError, match="needs a browser, and there is none: install Chromium"):
        run("pipeline: [{stage: visit, args: ['${BASE}/']}]\nspindle: {keepColumns: [_url]}", BASE=browser_site.url)


WRONG = """
fetch:
  url: "http://a.b/"
  traces:
    - action: Visti
    - action: wait
      params:
        secnds: 3
    - {action: scroll_to_bottom, params: {behavior: smoth}}
    - {action: prompt, params: {}}
    - {params: {seconds: 1}}
    - {action: wait, parms: {seconds: 1}}
    - {action: visit, params: {url: "file:///etc/passwd"}}
    - wait
    - {action: wait, factory: wait}
    - {action: click, params: {selector: 'a['}}
    - {action: wait_for, params: {selector: 'li >> '}}
pipeline:
  - {stage: visitExplore, args: [a, {traces: [{action: snapshot}, {action: snapshot}]}]}
  - {stage: visitJoin, args: [a, {trace: []}]}
"""


def test_every_fault_of_a_trace_has_its_line() -> None:
    with pytest.raises(PipelineError) as caught:
        Pipeline.from_yaml(WRONG)
    assert [(each.line, each.message) for each in caught.value.problems] == [
        (5, "unknown action 'Visti'; did you mean visit?"),
        (8, "wait: 'seconds' is missing"),
        (8, "wait: unknown argument 'secnds'; did you mean seconds?"),
        (9, "scroll_to_bottom: unknown behavior 'smoth'; did you mean smooth?"),
        (10, "prompt: 'prompt' is missing"),
        (11, "an entry of a trace is a map with 'action', its name, and 'params'"),
        (12, "unknown key 'parms'; did you mean params?"),
        (13, "visit: 'file:///etc/passwd' is not an http or https address"),
        (14, "an entry of a trace is a map with 'action', its name, and 'params'"),
        (15, "give either 'action' or 'factory', not both"),
        (16, "click: not a selector: a ] is missing"),
        (17, "wait_for: not a selector: it is empty, or a part of it between >>"),
        (19, "visitExplore: an explore visits each page once: its trace can take one snapshot, and capture nothing"),
        (20, "visitJoin: unknown argument 'trace'; did you mean traces?"),
    ]


@pytest.mark.parametrize(
    "selector",
    [
        *("a[b='x >> y'] >> li", "text=It's [", "//a[", "li >> text=(", "'quoted (", ":has-text('(') >> nth=0"),
        *(r"a\(b", "a[href=x]", "> a", "..", "xpath=(//a", "a:not([b]) >> ..", "a${X}[", 'p:text("It\'s")', "li>>a"),
    ],
)
def test_a_selector_for_the_browser_is_accepted(selector: str) -> None:
    assert Click(selector=selector).selector == selector


@pytest.mark.parametrize("selector", ["a]", "a(", "a[b='c]", "a >> >> b", ">> a", " ", "a:not([b)]", "li >> a["])
def test_a_selector_that_no_browser_can_read_is_refused(selector: str) -> None:
    with pytest.raises(ValidationError, match="not a selector"):
        Click(selector=selector)


def test_a_trace_may_hold_parameters() -> None:
    text = """
fetch: {url: "${URL}", traces: [{action: "${ACTION}", params: {seconds: "${SECONDS}"}}]}
pipeline: []
spindle: {keepColumns: [_url]}
"""
    pipeline = Pipeline.from_yaml(text)
    assert pipeline.parameters == {"URL", "ACTION", "SECONDS"}
    plan = pipeline.plan({"URL": "http://a.b/", "ACTION": "wait", "SECONDS": "1.5"})
    assert plan.steps[0].stage.traces[0].seconds == 1.5  # type: ignore[union-attr]
