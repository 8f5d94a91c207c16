"""Problems of invalid pipelines: line, path, code and suggestions. The wording is in problems.txt."""

from __future__ import annotations

import os

import pytest

from pipelines.errors import PROBLEM_CODES, PipelineError
from pipelines.pipeline import Pipeline, check_yaml
from tests.pipelines.planning.problems import format_problems, read_cases, write_cases

FETCH = "fetch: {url: 'http://a/'}\npipeline:\n"
ONE_PAGE = FETCH + "- {stage: extract, args: [{selector: h1, as: title}]}\n"


def test_problems_are_those_of_the_golden_file(subtests: pytest.Subtests) -> None:
    if os.environ.get("UPDATE_PROBLEMS"):
        write_cases()
    for text, expected in read_cases():
        with subtests.test(text):
            assert format_problems(text) == expected


def test_a_pipeline_has_at_most_a_thousand_stages() -> None:
    with pytest.raises(PipelineError) as error:
        check_yaml(FETCH + "- {stage: reset}\n" * 1001)
    assert [(each.line, each.code) for each in error.value.problems] == [(1003, "too-many-stages")]


@pytest.mark.parametrize("query", ["$filter=x", "$title=x&$top=5", "$top=5&$title=x", "x=%24title"])
def test_a_dollar_in_an_address_that_names_no_column_is_a_dollar(query: str) -> None:
    check_yaml(ONE_PAGE + f"- {{stage: wget, args: ['http://a/odata?{query}']}}")


def test_unknown_top_level_keys_are_ignored_with_a_warning() -> None:
    text = ONE_PAGE + "spindel: {delay: 2}\nname: x\npython_extensions: {}\nstart_urls: []\nurl: x\nmaxPages: 2"
    warnings = Pipeline.from_yaml(text).check()
    assert [(each.line, each.code) for each in warnings] == [(n, "unknown-key") for n in (4, 5, 7, 8, 9)]
    assert Pipeline.from_yaml(text).plan().warnings == warnings
    meant = ["did you mean spindle?", "a pipeline has fetch, pipeline,", "'fetch: {", "in 'fetch'", "in 'spindle'"]
    assert all(each in warning.message for each, warning in zip(meant, warnings, strict=True))


def test_errors_come_with_the_ignored_keys_that_may_explain_them() -> None:
    with pytest.raises(PipelineError) as error:
        check_yaml("fetch:\nurl: http://a/\npipeline:\n- {stage: extract, args: [{selector: h1}]}")
    assert [each.code for each in error.value.problems] == ["no-rows"]
    assert [(each.line, each.code) for each in error.value.warnings] == [(2, "unknown-key")]


def test_all_problems_are_listed_at_once() -> None:
    with pytest.raises(PipelineError) as error:
        Pipeline.from_yaml("fetch: {url: x}\npipeline: [{stage: sorted}, {stage: limit, args: [x]}]\noutput: {mode: 1}")
    assert [problem.path for problem in error.value.problems] == [
        "fetch.url",
        "pipeline[0].stage",
        "pipeline[1].args.rows",
        "output.mode",
    ]


def test_all_missing_parameters_are_listed_with_their_lines() -> None:
    text = "fetch:\n  url: ${BASE}/x\npipeline:\n- {stage: limit, args: ['${N}']}\n- {stage: limit, args: ['${BASE}']}"
    with pytest.raises(PipelineError) as error:
        Pipeline.from_yaml(text).plan({"OTHER": "1"})
    assert [str(problem) for problem in error.value.problems] == [
        "line 2: the parameter ${BASE} has no value",
        "line 4: the parameter ${N} has no value",
        "line 5: the parameter ${BASE} has no value",
    ]


def test_the_first_missing_parameters_and_their_number_are_listed() -> None:
    texts = ("".join(f"${{P{scalar}_{each}}}" for each in range(70)) for scalar in range(100))
    text = "fetch: {url: http://shop.test/}\npipeline:\n" + "".join(
        f"- {{stage: echo, args: ['{it}']}}\n" for it in texts
    )
    with pytest.raises(PipelineError) as error:
        Pipeline.from_yaml(text).plan()
    problems = error.value.problems
    assert len(problems) == 101
    assert {each.code for each in problems} == {"missing-parameter"}
    assert str(problems[0]) == "line 3: the parameter ${P0_0} has no value"
    assert str(problems[99]) == "line 4: the parameter ${P1_29} has no value"
    assert problems[100].line == 4
    assert "6,900 more" in problems[100].message


def test_the_name_of_a_missing_parameter_is_shortened() -> None:
    with pytest.raises(PipelineError) as error:
        Pipeline.from_yaml("fetch: {url: '${" + "A" * 10_000 + "}'}\npipeline: []").plan()
    assert str(error.value) == "line 1: the parameter ${" + "A" * 59 + "…} has no value"


def test_parameters_may_stay_open_while_a_pipeline_is_written() -> None:
    text = """
fetch: {url: "${BASE}"}
pipeline:
- {stage: join, args: ["${LINK}", "${TYPE}"]}
- {stage: explore, args: [a, "${DEPTH}"]}
- {stage: extract, args: [{selector: "${S}", method: "attr:${A}", as: a}]}
- {stage: limit, args: ["${N}"]}
spindle: {maxPages: "${PAGES}"}
"""
    assert check_yaml(text).parameters == {"BASE", "LINK", "TYPE", "DEPTH", "S", "A", "N", "PAGES"}


def test_a_value_is_never_read_as_yaml() -> None:
    text = "fetch: {url: 'http://a/'}\npipeline:\n- {stage: extract, args: [{selector: '${S}', as: a}]}"
    pipeline = Pipeline.from_yaml(text)
    with pytest.raises(PipelineError, match="not a selector"):
        pipeline.plan({"S": "x', as: b}, {selector: 'y"})
    assert "limit 3" in str(Pipeline.from_yaml(text + "\n- {stage: limit, args: ['${N}']}").plan({"S": "a", "N": 3}))


def test_a_user_agent_brings_no_line_break_by_a_parameter_either() -> None:
    pipeline = check_yaml(ONE_PAGE + "spindle:\n  userAgent: 'x ${NAME}'")
    assert pipeline.plan({"NAME": "y/1.0 (z)"}).options.user_agent == "x y/1.0 (z)"
    with pytest.raises(PipelineError, match=r"^line 5: the user agent must be printable ASCII on one line"):
        pipeline.plan({"NAME": "y\r\n\r\nGET /smuggled HTTP/1.1"})


@pytest.mark.parametrize(
    "wrong",
    [
        FETCH + "- {stage: extracts}\n" * 1000,
        ONE_PAGE + "- {stage: dedup, args: [none]}\n" * 900,
        FETCH + "- stage: extract\n  args:\n" + "  - {selektor: h1}\n" * 1000,
    ],
    ids=["stages", "columns", "arguments"],
)
def test_the_first_hundred_problems_are_listed(wrong: str) -> None:
    with pytest.raises(PipelineError) as error:
        check_yaml(wrong)
    assert len(error.value.problems) == 101
    assert error.value.problems[-1].code == "too-many-problems"


def test_among_very_many_columns_the_first_may_have_been_meant() -> None:
    columns = ", ".join(f"{{selector: h1, as: title{n}}}" for n in range(1000))
    with pytest.raises(PipelineError, match="did you mean title1 or"):
        check_yaml(FETCH + f"- {{stage: extract, args: [{columns}]}}\n- {{stage: dedup, args: [titel1]}}\n")


def test_every_code_is_documented() -> None:
    codes = {line.split()[2] for _, problems in read_cases() for line in problems.splitlines()}
    assert codes <= PROBLEM_CODES.keys()
