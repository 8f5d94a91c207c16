"""Plans as text, and spellings that mean the same plan."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from pipelines.pipeline import Pipeline
from pipelines.planning.plan import Kind
from pipelines.planning.stage import LinkStage, RowStage, register_stage

FILES = sorted(Path(__file__).with_name("plans").glob("*.yaml"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_plan_is_as_written(file: Path) -> None:
    plan = Pipeline.from_yaml(file.read_text()).plan_open()
    golden = file.with_suffix(".txt")
    if os.environ.get("UPDATE_PLANS"):
        golden.write_text(f"{plan}\n")
    assert f"{plan}\n" == golden.read_text()
    keys = [step.key for step in plan.steps]
    assert len(set(keys)) == len(keys)
    assert all(re.fullmatch("[A-Za-z0-9_]+", key) for key in keys)
    assert plan.steps[-1].kind is Kind.OUTPUT


@pytest.mark.parametrize(
    ("more", "loads"),
    [
        ("", False),
        (", {stage: dedup, args: [title]}, {stage: save_csv, args: [out]}", False),
        (", {stage: unionByName, args: [{format: csv, path: in.csv}]}", True),
        (", {stage: store, args: [a]}, {stage: load_csv, args: [in.csv]}, {stage: union_with, args: [a]}", True),
    ],
)
def test_a_plan_shows_whether_rows_come_from_files(more: str, loads: bool) -> None:
    extract = "{stage: extract, args: [{selector: h1, method: text, as: title}]}"
    plan = Pipeline.from_yaml(f"fetch: {{url: https://a.example/}}\npipeline: [{extract}{more}]").plan_open()
    assert plan.reads_files is loads


@pytest.mark.parametrize(("former", "now"), [("build_worker", r"work\(self, tools\)"), ("sets_order", "capabilities")])
def test_a_stage_with_a_former_method_is_refused_with_the_one_of_today(former: str, now: str) -> None:
    stage = type("Old", (RowStage,), {former: lambda _self: None})
    with pytest.raises(TypeError, match=f"The stage 'old' has `{former}`, .* write `{now}"):
        register_stage("old")(stage)


FETCH = "fetch: {url: 'http://a/'}\npipeline:\n- "
ASKED, LIMITLESS = "no-model", "no-model-budget"


@pytest.mark.parametrize(
    ("stage", "codes"),
    [
        ("{stage: iextract, args: ['title as title', p_]}", [ASKED]),
        ("{stage: iextract, args: [{selector: main, method: code}, 'title as title', p_]}", [ASKED]),
        ("{stage: iextract, args: {prompt: 'title as title', prefix: p_}}", [ASKED]),
        ("{stage: intelligentJoin, args: [the products]}", [ASKED]),
        ("{stage: intelligent_join, args: [auto]}", []),
        ("{stage: intelligentJoin, args: [auto, none, 5]}", []),
        ("{stage: intelligentJoin, args: [auto, {useWget: true, limit: 5}]}", []),
        ("{stage: intelligentJoin, args: [auto, accept the cookies, 5]}", [ASKED]),
        ("{stage: intelligentExplore, args: [next page]}", [ASKED]),
        ("{stage: intelligent_explore, args: [next page, 3]}", [ASKED]),
        ("{stage: intelligentFlatSelect, args: [li.product, 'Extract: name']}", [ASKED]),
        ("{stage: intelligent_flatSelect, args: [each product, 'Extract: name', p_]}", [ASKED]),
        ("{stage: intelligent_table}", []),
        ("{stage: extract, args: [{selector: main, method: llm, args: ['Extract: name'], as: found}]}", [ASKED]),
        ("{stage: extract, args: [{method: llm, as: found}]}", [ASKED]),
    ],
)
def test_a_spelling_is_accepted(stage: str, codes: list[str]) -> None:
    warnings = Pipeline.from_yaml(FETCH + stage).check()
    assert [each.code for each in warnings if each.code != "no-columns"] == codes


def test_a_model_without_a_budget_is_a_warning() -> None:
    text = f"{FETCH}{{stage: iextract, args: ['title as title']}}\nspindle: {{model: {{provider: openai}}}}"
    assert [each.code for each in Pipeline.from_yaml(text).check()] == [LIMITLESS]
    assert Pipeline.from_yaml(text.replace("openai", "openai, maxCalls: 9")).check() == ()


def test_a_prompt_in_a_trace_is_accepted_with_a_warning() -> None:
    text = "fetch: {url: 'http://a/', traces: [{action: prompt, params: {text: accept}}]}\npipeline:\n- "
    pipeline = Pipeline.from_yaml(f"{text}{{stage: intelligentJoin, args: [auto]}}")
    assert [each.code for each in pipeline.check() if each.code != "no-columns"] == [ASKED]
    joins = [step.stage for step in pipeline.plan().steps if step.name == "intelligentJoin"]
    assert [isinstance(each, LinkStage) and each.fetching.browsing is not None for each in joins] == [True]
