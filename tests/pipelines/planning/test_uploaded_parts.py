"""Plans with parts of plugins that this process does not have: as they are declared, and where nobody declares them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipelines.browser.actions import ACTIONS
from pipelines.errors import PipelineError
from pipelines.extract.extractors import METHODS
from pipelines.language.plugin_scope import ALL_PLUGINS, PluginScope, UploadedAction, UploadedMethod, UploadedPart
from pipelines.pipeline import Pipeline

TEXT = """\
fetch:
  url: http://shop.test/
  traces: [{action: acme_dig, params: {depth: 2}}]
pipeline:
- stage: flatSelect
  args:
    - li
    - {selector: b, method: 'codes:x', as: code}
    - {selector: i, method: codes:y, all: true}
    - {selector: i, method: llm, args: [the maker], as: maker}
- {stage: extracts, args: [$dug]}
- {stage: iextract, args: [{prompt: the size, html: {field: dug, method: codes:z}}]}
"""
METHOD = UploadedMethod("code s", "int", "KEY")
ACTION = UploadedAction("acmeDig", ("depth", "as"), ("depth",))
STAGE = UploadedPart("extracts")
SCOPE = PluginScope(stages={"extracts": STAGE}, methods={"codes": METHOD}, actions={"acmedig": ACTION})


def test_a_plan_has_the_declared_parts_and_the_types_of_methods() -> None:
    plan = Pipeline.from_yaml(TEXT, SCOPE).plan(plugins=SCOPE)
    fetch, select, missing, ask, _ = plan.steps
    assert fetch.columns.open, "a driver knows the columns of an action"
    assert select.columns.types == (("code", "int"), ("code s", "array<int>"), ("maker", "map<string,string>"))
    used = [[*step.stage.list_uploaded()] for step in (fetch, select, missing, ask) if step.stage]
    assert used == [[ACTION], [METHOD, METHOD], [STAGE], [METHOD]]
    assert [each.code for each in plan.warnings] == ["no-model"]


@pytest.mark.parametrize("lacking", ["stages", "methods", "actions"])
def test_a_name_that_nobody_declares_has_its_line(lacking: str) -> None:
    scope = replace(SCOPE, **{lacking: {}})
    pipeline = Pipeline.from_yaml(TEXT, SCOPE)
    expected = {
        "stages": [(11, "unknown-stage")],
        "methods": [(8, "unknown-method"), (9, "unknown-method"), (12, "unknown-method")],
        "actions": [(3, "unknown-action")],
    }[lacking]
    with pytest.raises(PipelineError) as error:
        pipeline.plan(plugins=scope)
    found = [(each.line, each.code) for each in error.value.problems]
    assert [each for each in found if each[1].startswith("unknown-")] == expected
    if lacking == "actions":  # no action has a similar name, so that a plugin may bring it
        warnings = pipeline.plan_open(plugins=scope).warnings
        assert [(each.line, each.code) for each in warnings if each.may_come] == expected
    else:
        with pytest.raises(PipelineError, match="did you mean"):
            pipeline.plan_open(plugins=scope)


def test_methods_and_actions_of_a_disabled_plugin_have_their_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    for registry, name in ((METHODS, "price"), (ACTIONS, "click")):
        monkeypatch.setitem(vars(registry)["_entries"], name, replace(registry.find(name), plugin="acme"))
    text = """\
fetch:
  url: http://shop.test/
  traces: [{action: click, params: {selector: a}}]
pipeline:
- {stage: extract, args: [{selector: b, method: price, as: price}]}
"""
    disabled = PluginScope(disabled=frozenset({"acme"}))
    expected = [(3, "plugin-disabled"), (5, "plugin-disabled")]
    pipeline = Pipeline.from_yaml(text, disabled)
    with pytest.raises(PipelineError) as error:
        pipeline.plan(plugins=disabled)
    assert [(each.line, each.code) for each in error.value.problems] == expected
    opened = pipeline.plan_open(plugins=disabled)
    assert [(each.line, each.code) for each in opened.warnings] == expected
    assert opened.columns.types == (("price", "double"),)


def test_parts_that_may_come_have_open_types() -> None:
    text = TEXT.replace("codes:x", "whatever(7)").replace("all: true", "cast: date, as: day").replace("codes:", "zzz:")
    plan = Pipeline.from_yaml(text.replace("extracts", "acmeOwn")).plan_open(plugins=ALL_PLUGINS)
    assert plan.steps[1].columns.types[:2] == (("code", "unknown"), ("day", "date"))
    assert [(each.line, each.code) for each in plan.warnings if each.may_come] == [
        (3, "unknown-action"),
        (8, "unknown-method"),
        (9, "unknown-method"),
        (11, "unknown-stage"),
        (12, "unknown-method"),
    ]
