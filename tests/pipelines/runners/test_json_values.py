"""Values of JSON pages keep their types on both runners: numbers are numbers, and mixed values are text."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pipelines.language.engines import Growth
from tests.support.runners import Runners
from tests.support.site import Site
from tests.support.trials import try_rows

ITEMS = [
    {"id": 9007199254740993, "price": 12.5, "new": True, "code": "007", "mixed": 1, "tags": [1, 2], "note": None},
    {"id": 2, "price": 3, "new": None, "code": "8", "mixed": "one", "tags": [], "sizes": {"s": 1}, "link": "/a"},
    {"id": 3, "price": None, "new": False, "code": "9", "mixed": True, "tags": [2.5], "link": "/b"},
]
FIELDS = ("id", "price", "new", "code", "mixed", "note", "sizes")
TYPES = {
    "id": "bigint",
    "price": "double",
    "new": "boolean",
    "code": "string",
    "mixed": "string",
    "note": "string",
    "sizes": "string",
    "tags": "array<double>",
}
EXTRACTORS = ", ".join(
    [*(f"{{selector: $.{name}, as: {name}}}" for name in FIELDS), "{selector: '$.tags[*]', all: true, as: tags}"]
)
HEAD = "fetch: {{url: '{shop}/items'}}\npipeline:\n"
SELECT = f"- {{stage: flatSelect, args: [$.items, {EXTRACTORS}]}}\n"
TYPED: list[dict[str, Any]] = [
    {"id": 9007199254740993, "price": 12.5, "new": True, "code": "007", "mixed": "1", "note": None, "sizes": None},
    {"id": 2, "price": 3.0, "new": None, "code": "8", "mixed": "one", "note": None, "sizes": '{"s": 1}'},
    {"id": 3, "price": None, "new": False, "code": "9", "mixed": "true", "note": None, "sizes": None},
]
TAGS = [[1.0, 2.0], [], [2.5]]


@pytest.fixture
def shop(site: Site) -> str:
    pages = {"/items": json.dumps({"items": ITEMS, "next": "/more"}), "/more": json.dumps({"items": [{"id": 4.5}]})}
    types = {"/items": "application/json", "/more": "application/json"}
    return site.serve({**pages, "/a": "<h1>A</h1>", "/b": "<h1>B</h1>"}, types)


def test_numbers_of_json_are_numbers(runners: Runners, shop: str) -> None:
    found = runners.assert_equal(runners.plan(HEAD.format(shop=shop) + SELECT))
    assert dict(found.columns) == TYPES
    assert found.ordered == [repr({**row, "tags": tags}) for row, tags in zip(TYPED, TAGS, strict=True)]


def test_lists_of_several_paths_stay_parallel(runners: Runners, site: Site) -> None:
    items = [{"n": "A", "p": 1, "s": "5 EUR"}, {"n": None, "p": None, "s": None}, {"n": "C", "p": 3, "s": "free"}]
    page = {"items": items, "tags": ["x", None], "none": None, "one": [{"t": ["x", "y"]}]}
    base = site.serve({"/": json.dumps(page)}, {"/": "application/json"})
    plan = runners.plan(f"""
fetch: {{url: "{base}/"}}
pipeline:
- stage: extract
  args:
  - {{selector: "$.items[*].n", all: true, as: names}}
  - {{selector: "$.items[*].p", all: true, as: prices}}
  - {{field: "items[*].s", all: true, method: price, as: sums}}
  - {{selector: "$.items[*].s", all: true, pattern: '(\\d+) EUR', cast: int, as: amounts}}
  - {{selector: "$.items[*]", all: true, method: "attr:p", as: texts}}
  - {{selector: $.tags, all: true, as: tags}}
  - {{selector: $.none, all: true, as: none}}
  - {{selector: "$.one[*].t", all: true, as: one}}
  - {{selector: "$.items[*].p", as: first}}
""")
    wanted = {
        "names": ["A", None, "C"],
        "prices": [1, None, 3],
        "sums": [5.0, None, None],
        "amounts": [5, None, None],
        "texts": ["1", None, "3"],
        "tags": ["x", None],
        "none": [],
        "one": ['["x", "y"]'],
        "first": 1,
    }
    assert runners.assert_equal(plan).preview == [wanted]
    assert try_rows(plan) == [wanted]


@pytest.mark.long
def test_values_keep_their_types_over_links_and_explores(runners: Runners, shop: str) -> None:
    text = HEAD.format(shop=shop) + (
        "- {stage: explore, args: [$.next, 2]}\n"
        "- {stage: flatSelect, args: [$.items, {selector: $.id, as: id}, {selector: $.link, as: link, method: href}]}\n"
        "- {stage: wget, args: [$link]}\n- {stage: extract, args: [{selector: h1, as: title}]}\n"
    )
    found = runners.assert_equal(runners.plan(text))
    assert dict(found.columns)["id"] == "double"
    assert [row.partition(", 'link'")[0] for row in found.ordered] == [
        "{'id': 9007199254740992.0",
        "{'id': 2.0",
        "{'id': 3.0",
        "{'id': 4.5",
    ]


def test_the_method_text_and_a_cast_name_the_type(runners: Runners, shop: str) -> None:
    select = "- {stage: flatSelect, args: [$.items, {selector: $.id, method: text, as: id}, "
    select += "{selector: $.price, cast: 'decimal(6,2)', as: price}, {selector: $.new, as: new, default: false}]}\n"
    found = runners.assert_equal(runners.plan(HEAD.format(shop=shop) + select))
    assert dict(found.columns) == {"id": "string", "price": "decimal(6,2)", "new": "boolean"}
    assert "'price': Decimal('12.50'), 'new': True" in found.ordered[0]
    assert "'new': False" in found.ordered[1]


@pytest.mark.long
@pytest.mark.parametrize("condition", ["price > 3.5", "code = '8'", "mixed IS NULL OR new = false"])
def test_filters_and_sorts_read_the_values(runners: Runners, shop: str, condition: str) -> None:
    stages = f'- {{stage: filter, args: ["{condition}"]}}\n- {{stage: sort, args: [{{column: id, desc: true}}]}}\n'
    found = runners.assert_equal(runners.plan(HEAD.format(shop=shop) + SELECT + stages))
    assert len(found.ordered) == 1


def test_a_run_goes_on_with_spark_where_a_type_needs_it(runners: Runners, shop: str) -> None:
    plan = runners.plan(HEAD.format(shop=shop) + SELECT + "- {stage: filter, args: ['id > 2.5 AND id < 5']}\n")
    outcome, grown = runners.run_growing(plan, Growth())
    assert grown is not None
    assert outcome.failure is None
    assert outcome.requests == {"/items": 1}
    assert [row.partition(",")[0] for row in outcome.ordered] == ["{'id': 3"]


def test_a_row_function_gets_the_values(runners: Runners, shop: str) -> None:
    returned = "{'id': row['id'] * 2, 'kind': type(row['new']).__name__}"
    source = f"def double(row) -> {{'id': int, 'kind': str}}:\n  return {returned}\n"
    text = HEAD.format(shop=shop) + SELECT + "- {stage: 'python_row_transform:double'}\n"
    found = runners.assert_equal(runners.plan(text, {"double": source}))
    assert found.ordered[1:] == ["{'id': 4, 'kind': 'NoneType'}", "{'id': 6, 'kind': 'bool'}"]
