"""What a wrong pipeline is told: the line, the place, and what was meant."""

from __future__ import annotations

import pytest

from pipelines import Pipeline, PipelineError, check_yaml

FETCH = "fetch: {url: 'http://a/'}\npipeline:\n"
ONE_PAGE = FETCH + "- {stage: extract, args: [{selector: h1, as: title}]}\n"


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("[]", ["1: a pipeline is a map with the key 'pipeline', a list of stages"]),
        ("fetch: {url: 'http://a/'}", ["1: the key 'pipeline' is missing: a list of stages"]),
        ("pipeline: x", ["1: 'pipeline' must be a list of stages"]),
        ("pipeline: []", ["1: the pipeline has no rows: begin with a fetch, a wget with an address, or a load"]),
        (FETCH + "- wgetJoin", ["3: a stage is a map with 'stage' and 'args'"]),
        (FETCH + "- {stage: 3}", ["3: 'stage' must be the name of a stage"]),
        (FETCH + "- {stage: limit, arg: 1}", ["3: unknown key 'arg'; a stage has only 'stage' and 'args'"]),
        (FETCH + "- stage: wget_jon", ["3: unknown stage 'wget_jon'; did you mean wgetJoin"]),
        (
            FETCH + "- stage: extract\n  args:\n  - {selektor: h1}",
            ["5: extract: unknown argument 'selektor'; did you mean selector?"],
        ),
        (
            FETCH + "- stage: extract\n  args:\n  - {method: txt}",
            ["5: extract: unknown method 'txt'; did you mean text?"],
        ),
        (FETCH + "- stage: extract\n  args:\n  - {method: attr}", ["5: extract: attr needs an argument: attr:NAME"]),
        (
            FETCH + "- stage: extract\n  args:\n  - {method: 'text:x'}",
            ["5: extract: the method 'text' has no argument"],
        ),
        (FETCH + "- stage: extract\n  args: []", ["4: extract: 'extractors' is missing"]),
        (
            FETCH + "- stage: extract\n  args:\n  - {selector: h1, field: x}",
            ["5: extract: give either 'selector' or 'field', not both"],
        ),
        (
            FETCH + "- stage: extract\n  args:\n  - {selector: h1, as: a}\n  - {selector: h2, as: a}",
            ["5: extract: two extractors are called 'a'; give each its own 'as'"],
        ),
        (FETCH + "- stage: join\n  args: [a, Iner]", ["4: join: unknown join type 'Iner'; did you mean Inner?"]),
        (FETCH + "- stage: join\n  args: []", ["4: join: 'selector' is missing"]),
        (
            FETCH + "- stage: join\n  args: [a, Inner, 3]",
            ["4: join: too many arguments; it takes selector, joinType; a comma in one needs quotes"],
        ),
        (FETCH + "- stage: join\n  args: ['a[']", ["4: join: not a selector: "]),
        (FETCH + "- stage: explore\n  args: [a, two]", ["4: explore: 'depth' must be a whole number"]),
        (
            FETCH + "- stage: explore\n  args: [a, {deep: 2}]",
            ["4: explore: unknown argument 'deep'; did you mean depth?"],
        ),
        (
            FETCH + "- stage: explore\n  args: [a, -1]",
            ["4: explore: 'depth': input should be greater than or equal to 0"],
        ),
        (
            FETCH + "- stage: wget\n  args: ['ftp://a/']",
            ["4: wget: 'ftp://a/' is neither an http or https address nor a $column"],
        ),
        (
            "fetch: {url: 'file:///etc/passwd'}\npipeline: []",
            ["1: 'file:///etc/passwd' is neither an http or https address"],
        ),
        ("fetch: {}\npipeline: []", ["1: 'url' is missing"]),
        ("fetch: {uri: x}\npipeline: []", ["1: unknown argument 'uri'; did you mean url?"]),
        (
            "fetch:\n  url: 'http://a/'\n  traces: [{action: vsit}]\npipeline: []",
            ["3: unknown action 'vsit'; did you mean visit?"],
        ),
        (
            "pipeline:\n- {stage: extract, args: [{selector: h1}]}",
            ["2: extract has no rows to work on: begin with a fetch"],
        ),
        ("pipeline:\n- {stage: join, args: [a]}", ["2: join has no rows to work on: begin with a fetch"]),
        (
            "pipeline:\n- {stage: load_csv, args: [a.csv]}\n- {stage: join, args: [a]}",
            ["3: join needs a page: put a fetch, a wget or a join before it"],
        ),
        (
            ONE_PAGE + "- {stage: limit, args: [1]}\n- {stage: extract, args: [{selector: h2}]}",
            ["5: extract needs a page, and pages end at limit 1 (line 4), which works on whole tables"],
        ),
        (ONE_PAGE + "- {stage: wget, args: [$titel]}", ["4: there is no column 'titel' here; did you mean title?"]),
        (
            ONE_PAGE + "- stage: extract\n  args:\n  - {field: nope}",
            ["6: there is no column 'nope' here; known are title"],
        ),
        (
            ONE_PAGE + "- {stage: extract, args: [{selector: h2, as: Title}]}",
            ["4: the columns 'title' and 'Title' differ only in case"],
        ),
        (
            FETCH + "- stage: extract\n  args:\n  - {selector: h1, as: title}\n  - {selector: a, as: __link}",
            ["6: the column '__link' begins with __, as columns do that the engine keeps to itself"],
        ),
        (
            FETCH + "- stage: extract\n  args:\n  - {selector: h1, as: _status}\n- {stage: limit, args: [x]}",
            [
                "5: extract: a column cannot be called _status: it is the engine's own, which spindle.keepColumns puts",
                "6: limit: 'rows' must be a whole number",
            ],
        ),
        (
            FETCH + "- stage: widen\n  args:\n  - p\n  - {selector: a, as: name}\n  - {selector: b, as: _URL}",
            ["7: widen: a column cannot be called _URL: it is the engine's own"],
        ),
        (
            ONE_PAGE + "- {stage: store, args: [a]}\n- {stage: store, args: [b]}\n- stage: store\n  args:\n  - a",
            ["8: 'a' is stored already by an earlier stage (line 4)"],
        ),
        (
            FETCH + '- {stage: extract, args: [{selector: h1, as: "a\\0b"}]}',
            [r"3: the column 'a\x00b' has a character"],
        ),
        (
            ONE_PAGE + "- {stage: sql_query, args: ['SELECT title AS __link FROM rows']}",
            ["4: sql_query: the column '__link' begins with __"],
        ),
        (
            FETCH + "- {stage: python_row_transform}\n- {stage: 'python_row_transform: '}",
            [
                "3: python_row_transform needs the name of a function: python_row_transform:NAME",
                "4: python_row_transform needs the name of a function: python_row_transform:NAME",
            ],
        ),
        (FETCH + "- {stage: reset}\n" * 1001, ["1003: a pipeline has at most 1,000 stages"]),
        ("fetch: http://a/\npipeline: []", ["1: 'fetch' must be a map: {url: https://...}"]),
        (
            "fetch: {url: 'http://a/', timeout: 3}\npipeline: []",
            ["1: timeout is set for the whole pipeline, in its key 'spindle'"],
        ),
        (
            FETCH + "- stage: explore\n  args:\n  - a\n  - maxPages: 2",
            ["6: explore: maxPages is set for the whole pipeline, in its key 'spindle'"],
        ),
        (
            FETCH + "- {stage: explore, args: {selector: a, delay: 2}}",
            ["3: explore: delay is set for the whole pipeline, in its key 'spindle'"],
        ),
        (
            FETCH + "- stage: extract\n  args: {as: t}",
            [
                "4: extract: 'extractors' is missing",
                "4: extract: 'as' is of an item of extractors, which is a list: write '- ' before each of its maps",
            ],
        ),
        (
            FETCH + "- {stage: extract, args: [h1]}",
            ["3: extract: an item of 'extractors' must be a map with selector, field, method, args, as"],
        ),
        (
            FETCH + "- stage: extract\n  args:\n  - {field: id, as: id}",
            ["5: there is no column 'id' here; known are none yet; in a page that is JSON it is $.id"],
        ),
        (
            ONE_PAGE + "- {stage: wget, args: ['http://a/$title/x']}",
            [
                "4: 'http://a/$title/x' is one address for all rows, with $title as it stands; make a column of "
                "addresses by sql_query, with concat('https://...', title) AS address, and give $address; "
                "a $ that is meant is written %24"
            ],
        ),
        (
            ONE_PAGE + "- {stage: wget, args: ['http://a/?$title=$title']}",
            ["4: 'http://a/?$title=$title' is one address for all rows, with $title as it stands; "],
        ),
        (
            ONE_PAGE + "- {stage: wget, args: ['http://a/?x=1&$title']}",
            ["4: 'http://a/?x=1&$title' is one address for all rows, with $title as it stands; "],
        ),
        (
            FETCH + "- {stage: join, args: ['//a[@rel]']}",
            [
                "3: join: not a selector: '/' at character 1 is not expected there; "
                "selectors are CSS, and $.paths in JSON, not XPath"
            ],
        ),
        (
            FETCH + "- stage: extract\n  args:\n  - {selector: 'a::attr(href)', as: t}",
            [
                "5: extract: not a selector: there is no name of a pseudo-class after ':'; "
                "what is read of an element is its method: text, or attr:NAME"
            ],
        ),
        (FETCH + "- {stage: join, args: [a]}", ["3: the pipeline gives no columns: extract some"]),
        (ONE_PAGE + "spindle: {maxFailure: 1}", ["4: unknown argument 'maxFailure'; did you mean maxFailureRatio?"]),
        (ONE_PAGE + "spindle: {maxFailureRatio: 2}", ["4: 'maxFailureRatio': input should be less than or equal to 1"]),
        (ONE_PAGE + "spindle:\n  keepColumns: [_urls]", ["5: unknown engine column '_urls'; did you mean _url?"]),
        (
            ONE_PAGE + 'spindle:\n  delay: 1\n  userAgent: "x\\r\\nCookie: evil=1"',
            ["6: the user agent must be printable ASCII on one line: it is sent in a header"],
        ),
        (ONE_PAGE + "spindle: {userAgent: Käfer}", ["4: the user agent must be printable ASCII on one line"]),
        (ONE_PAGE + "spindle: {userAgent: ''}", ["4: 'userAgent': string should have at least 1 character"]),
        (ONE_PAGE + "output: {mode: appendd}", ["4: unknown mode 'appendd'; did you mean append?"]),
        (ONE_PAGE + "output: {format: delta}", ["4: unknown format 'delta'; known are parquet"]),
        (ONE_PAGE + "output: here", ["4: 'output' must be a map"]),
    ],
)
def test_a_wrong_pipeline_is_told_where_and_what(text: str, problems: list[str]) -> None:
    with pytest.raises(PipelineError) as error:
        check_yaml(text)
    found = [f"{problem.line}: {problem.message}" for problem in error.value.problems]
    assert len(found) == len(problems)
    for told, expected in zip(found, problems, strict=True):
        assert told.startswith(expected)


@pytest.mark.parametrize("query", ["$filter=x", "$title=x&$top=5", "$top=5&$title=x", "x=%24title"])
def test_a_dollar_in_an_address_that_names_no_column_is_a_dollar(query: str) -> None:
    check_yaml(ONE_PAGE + f"- {{stage: wget, args: ['http://a/odata?{query}']}}")


def test_a_misspelt_key_is_ignored_like_those_of_others_but_not_in_silence() -> None:
    text = ONE_PAGE + "spindel: {delay: 2}\nname: x\noutput: {mode: append}\noutputs: {}"
    warned = ["line 4: the key 'spindel' is ignored; did you mean spindle?"]
    assert [str(each) for each in Pipeline.from_yaml(text).check()] == warned
    assert [str(each) for each in Pipeline.from_yaml(text).plan().warnings] == warned


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(PipelineError) as error:
        Pipeline.from_yaml("fetch: {url: x}\npipeline: [{stage: nope}, {stage: limit, args: [x]}]\noutput: {mode: 1}")
    assert [problem.path for problem in error.value.problems] == [
        "fetch.url",
        "pipeline[0].stage",
        "pipeline[1].args.rows",
        "output.mode",
    ]


def test_all_missing_parameters_are_told_with_their_lines() -> None:
    text = "fetch:\n  url: ${BASE}/x\npipeline:\n- {stage: limit, args: ['${N}']}\n- {stage: limit, args: ['${BASE}']}"
    with pytest.raises(PipelineError) as error:
        Pipeline.from_yaml(text).plan({"OTHER": "1"})
    assert [str(problem) for problem in error.value.problems] == [
        "line 2: the parameter ${BASE} has no value",
        "line 4: the parameter ${N} has no value",
        "line 5: the parameter ${BASE} has no value",
    ]


def test_of_very_many_missing_parameters_the_first_are_told_and_how_many_there_are() -> None:
    texts = ("".join(f"${{P{scalar}_{each}}}" for each in range(70)) for scalar in range(100))
    text = "fetch: {url: http://shop.test/}\npipeline:\n" + "".join(
        f"- {{stage: echo, args: ['{it}']}}\n" for it in texts
    )
    with pytest.raises(PipelineError) as error:
        Pipeline.from_yaml(text).plan()
    told = [str(problem) for problem in error.value.problems]
    assert len(told) == 101
    assert told[0] == "line 3: the parameter ${P0_0} has no value"
    assert told[99:] == [
        "line 4: the parameter ${P1_29} has no value",
        "line 4: from here on 6,900 more have no value",
    ]


def test_the_name_of_a_missing_parameter_is_told_shortened() -> None:
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
        FETCH + "- {stage: nothing}\n" * 1000,
        ONE_PAGE + "- {stage: dedup, args: [none]}\n" * 900,
        FETCH + "- stage: extract\n  args:\n" + "  - {selektor: h1}\n" * 1000,
    ],
    ids=["stages", "columns", "arguments"],
)
def test_of_very_many_problems_the_first_hundred_are_told(wrong: str) -> None:
    with pytest.raises(PipelineError) as error:
        check_yaml(wrong)
    assert len(error.value.problems) == 101
    assert "from here on nothing was looked at" in error.value.problems[-1].message


def test_among_very_many_columns_the_first_may_have_been_meant() -> None:
    columns = ", ".join(f"{{selector: h1, as: title{n}}}" for n in range(1000))
    with pytest.raises(PipelineError, match="did you mean title1 or"):
        check_yaml(FETCH + f"- {{stage: extract, args: [{columns}]}}\n- {{stage: dedup, args: [titel1]}}\n")
