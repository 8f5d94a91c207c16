"""Completion of a pipeline's text: stages, arguments and values for the place of the cursor, and help for it."""

from __future__ import annotations

import pytest

from pipelines.completion import Completion, complete_pipeline
from pipelines.listing import list_all_stages

EXTRACT = "pipeline:\n  - stage: extract\n    args:\n      - "


def complete(text: str) -> Completion:
    """Complete the text at its mark |."""
    before = text.partition("|")[0]
    line, start = before.count("\n") + 1, before.rfind("\n") + 1
    return complete_pipeline(text.replace("|", "", 1), line, len(before) - start + 1, list_all_stages())


def list_texts(text: str) -> list[str]:
    return [each.text for each in complete(text).suggestions]


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("|", ["fetch: ", "pipeline: "]),
        ("fetch: {url: x}\n|", ["pipeline: ", "spindle: "]),
        ("fetch: {ur|", ["url: "]),
        ("pipeline:\n  - |", ["stage: ", "args: "]),
        ("pipeline:\n  - stage: WGETJ|", ["wgetJoin"]),
        ("pipeline:\n- {stage: joi|}\n- {stage: [", ["join"]),
        ("pipeline:\n  - {stage: join, args: [a, |", ["Inner", "LeftOuter"]),
        ("pipeline:\n  - {stage: join, args: [a, {joint|", ["joinType: "]),
        ("pipeline:\n  - {stage: join, args: {joinType: |", ["Inner", "LeftOuter"]),
        (f"{EXTRACT}{{selector: h1, meth|", ["method: "]),
        (f"{EXTRACT}selector: h1\n        method: pri|", ["price"]),
        ("pipeline:\n  - stage: flatSelect\n    args:\n      - li\n      - - {method: hre|", ["href"]),
        ("fetch:\n  traces:\n    - action: scro|", ["scroll_to_bottom"]),
        ("fetch:\n  traces:\n    - {action: click, params: {o|", ["optional: "]),
        ("spindle:\n  robots: |", ["obey", "ignore"]),
        ("spindle: {session: |", ["true", "false"]),
        ("output: {format: del|", ["delta"]),
        ("checks:\n  - check: row|", ["row_count"]),
        ("checks:\n  - {check: row_count, mi|", ["min: "]),
    ],
)
def test_what_fits_the_place_is_suggested(text: str, first: list[str]) -> None:
    found = list_texts(text)
    if len(first) == 1:
        assert found[:1] == first
    else:
        assert [each for each in found if each in first] == first


def test_only_what_belongs_to_the_stage_is_suggested_and_nothing_twice() -> None:
    names = list_texts("pipeline:\n  - {stage: join, args: [a, {sameHost: true, |")
    assert "joinType: " in names
    assert not {"sameHost: ", "depth: ", "extractors: "} & set(names)
    assert "depth: " in list_texts("pipeline:\n  - {stage: explore, args: [a, {|")
    assert "extractors: " not in list_texts(f"{EXTRACT}|")


@pytest.mark.parametrize(
    "text", ["a\ud800: |", 'a: "x |', "pipeline:\n  - {stage: nothing, args: {|", "a: &b |", "\t|", "]|", ""]
)
def test_nothing_is_suggested_where_nothing_is_known(text: str) -> None:
    assert complete_pipeline(text.replace("|", ""), 9, 99, list_all_stages()).start >= 1
    if text:
        assert list_texts(text) == []


@pytest.mark.parametrize("text", ["[" * 1_000_000, "- {stage: [" * 300_000, "a: 1\n" * 100_000 + "pipeline: ["])
def test_a_text_that_is_no_pipeline_is_not_read_to_its_end(text: str) -> None:
    assert not list_texts(f"{text}|"), "without its bounds, this takes a quarter of an hour"


def test_the_replaced_word_and_its_help_are_those_of_the_place() -> None:
    found = complete("pipeline:\n  - {stage: extract, args: [{sel|ector: a, required: true}]}")
    assert found.start == 30
    assert [each.text for each in found.help] == ["extract"]
    found = complete("pipeline:\n  - {stage: extract, args: [{selector: a, req|uired: true}]}")
    assert [each.text for each in found.help] == ["extract", "required"]
    assert found.help[1].about.startswith("fail the run")
    (stage,) = complete("pipeline:\n  - stage: wgetJ|oin").help
    assert stage.about.startswith("Follow every link")
