"""A pipeline as a Python script: readable, and giving the rows of the pipeline. `UPDATE_SCRIPTS=1` writes them anew."""

from __future__ import annotations

import ast
import os
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from pyspark.sql import SparkSession

from pipelines.contract.context import RunContext
from pipelines.engine.options import make_fetch_options
from pipelines.errors import PipelineError
from pipelines.language.nodes import to_node
from pipelines.pipeline import Pipeline
from pipelines.planning.script import make_script, make_script_of, stage
from pipelines.spark.dataframes import to_records
from pipelines.transforms.transform import Transforms
from tests.support.site import Site

YAML = Path(__file__).with_name("scripts") / "shop.yaml"
SHOP = {
    "/": "<li class=product><a>Lamp</a><b class=price data-amount=2.5></b></li><a class=next href=/2>next</a>",
    "/2": "<li class=product><a>Cup</a></li><li class=product><a>Lamp</a></li><a class=next href=/3>next</a>",
    "/3": "<li class=product><a>Bowl</a><b class=price data-amount=1></b></li>",
}
SHOUT = "def shout(row, *, times=1) -> {'name': str}:\n    return {'name': row['name']}\n"


def test_the_script_is_as_written() -> None:
    golden = YAML.with_suffix(".py.txt")
    written = make_script(YAML.read_text())
    assert written is not None
    if os.environ.get("UPDATE_SCRIPTS"):
        golden.write_text(written)
    assert written == golden.read_text()


@pytest.mark.parametrize("quote", ['"', "'", '"""', "'''", '\\"', "\\"])
def test_the_name_of_a_parameter_is_text_in_the_script(quote: str) -> None:
    name = f"A{quote}+CALLED+{quote}B"
    url = "fetch:\n  url: |-\n    http://x/${" + name + "}\n"
    written = make_script(url + "pipeline: [{stage: extract, args: [{selector: h1, method: text, as: t}]}]\n")
    assert written is not None
    nodes = list(ast.walk(ast.parse(written)))
    assert not [node for node in nodes if isinstance(node, ast.Name) and node.id == "CALLED"]
    assert [node for node in nodes if isinstance(node, ast.Constant) and node.value == name]


@pytest.mark.long
def test_the_script_gives_the_rows_of_the_pipeline(
    spark: SparkSession, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = site.serve(SHOP)
    monkeypatch.setenv("SHOP", shop)
    text = YAML.read_text()
    names: dict[str, Any] = {"__name__": "script"}
    exec(make_script(text) or "", names)
    context = RunContext(fetch=make_fetch_options(Pipeline.from_yaml(text).plan_open().options, ("127.0.0.0/8",)))
    inline = names["FUNCTION_SHOUT"]
    expected = Pipeline.from_yaml(text).run(spark, {"SHOP": shop}, context, {"shout": inline})
    found = names["rows"](spark, context)
    assert to_records(found.orderBy("name")) == to_records(expected.orderBy("name"))
    assert to_records(found.orderBy("name")) == [
        {"name": "BOWLBOWL", "price": 1.0, "_depth": 2},
        {"name": "CUPCUP", "price": None, "_depth": 1},
        {"name": "LAMPLAMP", "price": 2.5, "_depth": 0},
    ]


def test_the_agents_function_overrides_the_pipelines_own() -> None:
    assert SHOUT in (make_script(YAML.read_text(), {"Shout": SHOUT}) or "")


ARGUMENTS = [
    "a",
    "[a, {depth: 2}]",
    "{selector: a, depth: 2}",
    '["a", 2]',
    "['a[title=\"é €\"]', 1]",
    "[a, {Depth: '${N}'}]",
]


@pytest.mark.parametrize("args", ARGUMENTS)
def test_the_script_matches_the_pipeline(args: str) -> None:
    text = f"fetch: {{url: 'http://a/'}}\npipeline:\n- {{stage: explore, args: {args}}}\n"
    text += "- {stage: extract, args: [{selector: a}]}\n"
    built: dict[str, Any] = {"__name__": "script"}
    exec(make_script(text) or "", built)
    planned = [built["pipeline"].plan({"N": 3}), Pipeline.from_yaml(text).plan({"N": 3})]
    assert [(step.key, step.title, step.stage) for step in planned[0].steps] == [
        (step.key, step.title, step.stage) for step in planned[1].steps
    ]


@pytest.mark.parametrize(
    "name",
    [
        "1st",
        "9",
        "²",
        "x²",
        "ﷺ",
        "".join(chr(ord(letter) + 0x1D489) for letter in "stage"),
        "class",
        "a b",
        "🙂",
        "ß",
        "a\x7f",
        'a"b',
    ],
)
def test_a_function_name_need_not_be_a_python_identifier(name: str) -> None:
    root = to_node({"pipeline": [{"stage": "load_csv", "args": ["a"]}, {"stage": f"python_row_transform:{name}"}]})
    names: dict[str, Any] = {"__name__": "script"}
    exec(make_script_of(root, {name: SHOUT}), names)
    assert names["stage"] is stage
    assert names["pipeline"].plan(transforms=Transforms({name: SHOUT})).steps
    [constant] = (each for each in names if each.startswith("FUNCTION_"))
    assert (constant.isascii(), names[constant]) == (True, SHOUT)


def test_functions_whose_names_differ_only_by_signs_keep_their_own_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    sources = {name: SHOUT.replace("name", f"n{number}") for number, name in enumerate(["a-b", "a b", "a.b", "a b 2"])}
    calls = "".join(f"- {{stage: 'python_row_transform:{name}'}}\n" for name in sources)
    names: dict[str, Any] = {"__name__": "script"}
    exec(make_script(f"pipeline:\n- {{stage: load_csv, args: [a]}}\n{calls}", sources) or "", names)
    ran = Mock()
    monkeypatch.setattr(Pipeline, "run", ran)
    names["rows"](None)
    assert ran.call_args.args[-1] == sources


BOLD_A = "\N{MATHEMATICAL BOLD SCRIPT SMALL A}"
CALLED = "def f(row, **given): return row"
SPECIAL = [
    "x: .inf",
    "x: -.inf",
    "x: [.inf, {y: .nan}]",
    "__debug__: 1",
    f"{BOLD_A}: 2",
    f"a: 1, {BOLD_A}: 2",
    "ﬁ: 1",
    "class: 1",
    "a b: 1",
]


@pytest.mark.parametrize("args", SPECIAL)
def test_an_argument_of_a_function_may_have_any_name_and_number(args: str) -> None:
    text = f"pipeline:\n- {{stage: load_csv, args: [a]}}\n- {{stage: 'python_row_transform:f', args: {{{args}}}}}\n"
    names: dict[str, Any] = {"__name__": "script"}
    exec(make_script(text, {"f": CALLED}) or "", names)
    planned = [
        each.plan(transforms=Transforms({"f": CALLED})) for each in (names["pipeline"], Pipeline.from_yaml(text))
    ]
    called = [[repr(step.stage) for step in plan.steps if step.stage] for plan in planned]
    assert called[0] == called[1]
    assert any("keywords=" in each for each in called[0])


def test_long_texts_are_not_kept_in_memory() -> None:
    load = "pipeline:\n- {stage: load_csv, args: [a]}\n"
    short, long = f"{load}# kept\n", f"{load}# {'x' * 60_000}\n"
    assert make_script(short) is make_script(short)
    assert make_script(long) is not make_script(long)
    assert make_script(load, {"f": "#" * 60_000}) is not make_script(load, {"f": "#" * 60_000})


def test_a_functions_text_is_stored_unchanged() -> None:
    text = 'pipeline:\n- {stage: load_csv, args: [a]}\n- {stage: "python_row_transform:f"}\n'
    for source in ('def f(row):\n  return {"a": """x"""}', "def f(row): return {'a': '\\n\t\u2028'}", 'def f(r): "x"'):
        names: dict[str, Any] = {"__name__": "script"}
        exec(make_script(text, {"f": source}) or "", names)
        assert names["FUNCTION_F"] == source


def test_a_parameter_in_a_functions_text_is_not_replaced() -> None:
    assert "environ" not in (
        make_script(YAML.read_text().replace("${SHOP}", "http://a").replace('row["price £"]', "'${PRICE}'"))
        or "environ"
    )


def test_a_text_that_is_no_pipeline_has_no_script() -> None:
    assert make_script("a: b: c") is None
    assert make_script("pipeline: [{stage: nothing_like_it}]") is None


def test_errors_of_a_pipeline_from_python_have_positions() -> None:
    with pytest.raises(PipelineError) as error:
        Pipeline.of(stages=[stage("wget", "http://a/"), stage("extract", {"selector": "a", "method": "txt"})])
    assert str(error.value).startswith("pipeline[1].args.extractors[0].method: extract: unknown method 'txt'")
    assert (
        Pipeline.of(stages=[stage("wget", "http://a/"), stage("python_row_transform:f", n=1)]).check(
            Transforms({"f": "def f(row, n): return row"})
        )
        == ()
    )
