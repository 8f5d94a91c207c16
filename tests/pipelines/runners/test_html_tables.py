"""Tables of pages on both runners and in a trial: no value under the heading of another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from pipelines.errors import PipelineError
from tests.support.pipelines import crawl
from tests.support.runners import Runners
from tests.support.site import Site
from tests.support.trials import open_trial

PRICES = """<table id=prices><caption>Prices</caption>
<thead><tr><th rowspan=2>Brand<th rowspan=2>Model<th colspan=2>Price<tr><th>net<th>gross
<tfoot><tr><td colspan=2>Sum<td>6<td>9
<tbody><tr><th rowspan=2 scope=row>Acme<td>One<td>1<td>2<tr><td>Two<td colspan=2>on request
<tbody><tr><th scope=row>Best<td>Three<td>5<td>7</table>
<table><tr><td><table><tr><td>a<tr><td>b<tr><td>c<tr><td>d</table><tr><td>layout</table>"""
LAYOUT = """<table><tr><td>logo<tr><td><table><tr><th>A<th>B<tr><td>1<td>2</table>
<tr><td>foot<tr><td>end</table><table role=none><tr><th>A<tr><td>x<tr><td>y<tr><td>z</table>"""
ROWS = [
    {"Brand": "Acme", "Model": "One", "Price_net": "1", "Price_gross": "2"},
    {"Brand": "Acme", "Model": "Two", "Price_net": "on request", "Price_gross": "on request"},
    {"Brand": "Best", "Model": "Three", "Price_net": "5", "Price_gross": "7"},
    {"Brand": "Sum", "Model": "Sum", "Price_net": "6", "Price_gross": "9"},
]


def read(runners: Runners, stages: str) -> list[Mapping[str, Any]]:
    """Return the rows that both runners and a trial give."""
    plan = runners.plan(stages)
    outcome = runners.assert_equal(plan)
    with open_trial(plan) as trial:
        empty = dict.fromkeys(outcome.preview[0])
        assert [empty | row.values for row in trial.iter_rows()] == [*outcome.preview]
    return [*outcome.preview]


@pytest.mark.parametrize(
    ("page", "args", "rows"),
    [(PRICES, "[prices]", ROWS), (LAYOUT, "[]", [{"A": "1", "B": "2"}])],
    ids=["named", "no layout"],
)
def test_intelligent_table_reads_by_headings(
    runners: Runners, site: Site, page: str, args: str, rows: list[dict[str, str]]
) -> None:
    assert read(runners, crawl(site.serve({"/": page}) + "/", f"{{stage: intelligent_table, args: {args}}}")) == rows


def test_flat_select_of_rows_reads_their_columns(runners: Runners, site: Site) -> None:
    base = site.serve({"/": PRICES, "/none": "<p>no table"})
    stage = "{stage: flatSelect, args: ['#prices tr', {columns: auto}]}"
    text = f"fetch: {{url: ['{base}/', '{base}/none']}}\npipeline:\n- {stage}"
    found = read(runners, text)
    foot, *body = found[:-1]
    assert [*body, foot] == ROWS  # in the order of the page, in which the foot is above the body
    assert found[-1] == dict.fromkeys(ROWS[0])
    named = text.replace(stage, "{stage: flatSelect, args: {selector: '#prices tr', columns: auto}}")
    assert runners.plan(named).steps[1].stage == runners.plan(text).steps[1].stage


def test_columns_of_later_pages_are_there(runners: Runners, site: Site) -> None:
    rows = "".join(f"<tr><td>{n}<td>{n}" for n in range(150))
    base = site.serve(
        {
            "/": f"<table><tr><th>Name<th>Pop{rows}</table>",
            "/area": "<table><tr><th>Name<th>Pop<th>Area<tr><td>A<td>1<td>2</table>",
            "/case": "<table><tr><th>name<tr><td>B</table>",
        }
    )
    text = f"""
fetch: {{url: ['{base}/', '{base}/area', '{base}/case']}}
pipeline:
- {{stage: flatSelect, args: [tr, {{columns: auto}}]}}
spindle: {{keepColumns: [_error]}}
"""
    nothing = {"Name": None, "Pop": None, "Area": None, "_error": None}
    assert [*runners.assert_equal(runners.plan(text)).ordered[149:]] == [
        str(nothing | {"Name": "149", "Pop": "149"}),
        str(nothing | {"Name": "A", "Pop": "1", "Area": "2"}),
        str(nothing | {"Name": "B"}),
    ]


def test_columns_of_a_table_stand_beside_those_of_extractors(runners: Runners, site: Site) -> None:
    base = site.serve({"/": "<table><tr><th>Name<th>Price<tr><td><a href=/a>A</a><td>1"})
    extractors = "{selector: a, method: href, as: link}, {columns: auto, required: true}"
    outcome = runners.assert_equal(runners.plan(crawl(f"{base}/", f"{{stage: flatSelect, args: [tr, {extractors}]}}")))
    assert [*outcome.preview] == [{"Name": "A", "Price": "1", "link": f"{base}/a"}]


def test_cells_of_a_row_by_their_headings(runners: Runners, site: Site) -> None:
    by_xpath = "{stage: extract, args: [{xpath: \"//tr[contains(., 'Two')]\", method: cells, as: two}]}"
    cells = "{stage: flatSelect, args: ['#prices tr', {method: cells, as: cells}, {selector: td, as: first}]}"
    rows = read(runners, crawl(site.serve({"/": PRICES}) + "/", by_xpath, cells))
    found = [(row["first"], row["cells"] and dict(row["cells"])) for row in rows]
    assert found[3] == ("One", {"Brand": "Acme", "Model": "One", "Price / net": "1", "Price / gross": "2"})
    assert found[:2] == [(None, None), (None, None)]
    prices = dict.fromkeys(("Price / net", "Price / gross"), "on request")
    assert dict(rows[0]["two"]) == {"Brand": "Acme", "Model": "Two"} | prices


def test_segments_that_are_no_rows_of_a_table_fail(runners: Runners, site: Site) -> None:
    base = site.serve({"/": "<table><tr><th>A<th>B<tr><td>1<td>2</table>", "/list": "<ul><li>1</ul>"})
    text = f"""
fetch: {{url: ['{base}/', '{base}/list']}}
pipeline:
- {{stage: flatSelect, args: ["tr, li", {{columns: auto}}]}}
spindle: {{keepColumns: [_error], maxFailureRatio: 1}}
"""
    assert [*runners.assert_equal(runners.plan(text)).preview] == [
        {"A": "1", "B": "2", "_error": None},
        {"A": None, "B": None, "_error": "<li> is no row of a table"},
    ]


def test_values_of_json_have_no_headings(runners: Runners) -> None:
    with pytest.raises(PipelineError, match="'columns: auto' reads the rows of tables in HTML"):
        runners.plan(crawl("http://a.test/", "{stage: flatSelect, args: [$.a, {columns: auto}]}"))


def test_headings_that_differ_only_in_case_are_one_column(runners: Runners, site: Site) -> None:
    table = "<table><tr><th>Name<th>{}<tr><td>{}<td>1</table>"
    pages = {"/": table.format("TOTAL", "A") + table.format("Total", "B"), "/2": table.format("total", "C") * 3}
    base = site.serve(pages)
    found = read(
        runners,
        f"fetch: {{url: ['{base}/', '{base}/2']}}\npipeline:\n- {{stage: flatSelect, args: [tr, {{columns: auto}}]}}",
    )
    assert found == [{"Name": name, "TOTAL": "1"} for name in ("A", "B", *"CCC")]


@pytest.mark.parametrize(
    "columns", ["{columns: auto}", pytest.param("{selector: td, as: Name}", marks=pytest.mark.long)]
)
def test_a_filter_leaves_rows_of_pages_in_order(runners: Runners, site: Site, columns: str) -> None:
    pages = {f"/{at}": f"<table><tr><th>Name<tr><td>{at}a<tr><td>{at}b</table>" for at in range(8)}
    base = site.serve(pages)
    text = f"""
fetch: {{url: [{", ".join(f"'{base}{path}'" for path in pages)}]}}
pipeline:
- {{stage: flatSelect, args: [tr, {columns}]}}
- {{stage: filter, args: ['Name IS NOT NULL']}}
"""
    assert len(runners.assert_equal(runners.plan(text)).ordered) == 16
