"""extract and flatSelect on pages that are JSON or XML, and on others that are not HTML."""

from __future__ import annotations

import json

import pytest

from pipelines.errors import PipelineError
from pipelines.pipeline import check_yaml
from tests.support.pipelines import TITLE, Run, crawl, find_problem
from tests.support.site import Site

LIST = {"data": {"items": [{"name": "Lamp", "price": 12.5, "page": "/1"}, {"name": "Cup", "page": "/2"}], "next": 2}}


@pytest.fixture
def base(site: Site) -> str:
    types = {"/list": "application/json", "/1": "text/html", "/2": "text/html", "/plain": "text/plain"}
    pages = {"/list": json.dumps(LIST), "/1": "<h1>One</h1>", "/2": "<h1>Two</h1>", "/plain": "a,b\n1,2\n"}
    return site.serve(pages, types)


def test_values_are_read_by_path_in_selectors_and_fields(run: Run, base: str) -> None:
    text = f"""
fetch: {{url: "{base}/list"}}
pipeline:
- stage: extract
  args:
  - {{field: "data.items[0].name", as: name}}
  - {{selector: "$.data.items[1].name", as: second}}
  - {{field: "data.items[0].price", method: price}}
  - {{field: $.data.next, as: next}}
  - {{selector: "$.data.none", as: none}}
  - {{selector: "$.data.items[0]", method: "attr:page", as: page}}
- {{stage: extract, args: [{{field: name, as: copy}}]}}
"""
    assert list(run(text)[0].values()) == ["Lamp", "Cup", 12.5, 2, None, "/1", "Lamp"]


def test_flat_select_gives_a_row_per_item_whose_links_are_followed(run: Run, base: str) -> None:
    items = "{field: $.name, as: name}, {selector: $.page, method: href, as: url}"
    select = f"{{stage: flatSelect, args: [$.data.items, {items}]}}"
    rows = run(crawl(f"{base}/list", select, "{stage: wget, args: [$url]}", TITLE))
    assert [(row["name"], row["title"]) for row in rows] == [("Lamp", "One"), ("Cup", "Two")]


def test_the_pages_of_an_api_are_explored_and_joined_by_path(run: Run, site: Site) -> None:
    pages = {"/list": '{"next": "/list?2", "items": [{"page": "/1"}]}', "/list?2": '{"next": null, "items": []}'}
    base = site.serve({**pages, "/1": "<h1>One</h1>"}, dict.fromkeys(pages, "application/json"))
    stages = "{stage: wgetExplore, args: [$.next, {depth: 9}]}", '{stage: wgetJoin, args: ["$.items[*].page"]}'
    rows = run(crawl(f"{base}/list", *stages, TITLE, options="keepColumns: [_depth]"))
    assert rows == [{"title": "One", "_depth": 0}, {"title": None, "_depth": 1}]


def test_a_feed_is_followed_and_lists_become_arrays(run: Run, site: Site) -> None:
    feed = "<rss><channel><item><title>A</title><link>/1</link></item><item><link>/2</link></item></channel></rss>"
    page = "<h1>%s</h1><a href=/x>x</a><a href=/y>y</a>"
    base = site.serve({"/feed": feed, "/1": page % "One", "/2": page % "Two"})
    text = f"""
fetch: {{url: "{base}/feed", parser: XML}}
pipeline:
- {{stage: flatSelect, args: [item, {{selector: title, as: title, default: none}}]}}
- {{stage: join, args: [link]}}
- stage: extract
  args:
  - {{selector: h1, as: heading}}
  - {{selector: a, method: href, all: true, as: links}}
  - {{selector: a, method: attrs, all: true, as: attributes}}
  - {{xpath: "//a[2]", as: last}}
"""
    others = {"links": [f"{base}/x", f"{base}/y"], "attributes": [{"href": "/x"}, {"href": "/y"}], "last": "y"}
    assert run(text) == [{"title": "A", "heading": "One", **others}, {"title": "none", "heading": "Two", **others}]


def test_a_page_that_is_neither_has_its_text_as_code(run: Run, base: str) -> None:
    extractors = "{method: code}, {selector: h1, as: title}, {field: data.x, as: x}"
    rows = run(crawl(f"{base}/plain", f"{{stage: extract, args: [{extractors}]}}"))
    assert rows == [{"code": "a,b\n1,2\n", "title": None, "x": None}]


@pytest.mark.long
def test_a_slow_pattern_fails_only_its_row(run: Run, site: Site) -> None:
    base = site.serve({"/": "<a href=/a>a</a><a href=/b>b</a>", "/a": f"<p>{'a' * 60}!</p>", "/b": "<p>aa</p>"})
    extract = '{stage: extract, args: [{selector: "p:matches((a|aa)+$)", as: p}]}'
    rows = run(crawl(f"{base}/", "{stage: wgetJoin, args: [a]}", extract, options="keepColumns: [_error]"))
    assert [row["p"] for row in rows] == [None, "aa"]
    assert rows[0]["_error"].startswith("the pattern '(a|aa)+$' takes more than 1 s")


@pytest.mark.parametrize(
    ("extractor", "message"),
    [
        ("{field: 'data.items[x]'}", "extract: the field is not a JSON path: '[x]' at character 13 is no .name"),
        ("{selector: '$.a..b'}", "extract: not a selector: '..b' at character 4 is no .name"),
        ("{method: llm, all: true}", "extract: llm reads one selector or field"),
    ],
)
def test_errors_have_their_line(extractor: str, message: str) -> None:
    found = find_problem(crawl("http://a/", f"stage: extract\n  args:\n  - {extractor}"))
    assert found.line == 5
    assert found.message.startswith(message)


def test_a_field_with_a_dot_is_a_path_unless_it_is_quoted() -> None:
    text = "pipeline:\n- {stage: load_csv, args: [in.csv]}\n- {stage: extract, args: [{field: '%s', as: price}]}"
    assert check_yaml(text % '$"unit.price"')
    with pytest.raises(PipelineError, match="needs a page"):
        check_yaml(text % "unit.price")
