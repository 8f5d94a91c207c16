"""Every spelling of a stage or action with a prompt is accepted, with warnings, and without a model."""

from __future__ import annotations

import pytest

from pipelines.pipeline import Pipeline
from pipelines.planning.stage import LinkStage

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
