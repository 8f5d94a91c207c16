"""Users' functions while they are only texts: what is told of wrong ones, and that a large or odd one stays cheap."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from pipelines.errors import MAX_PROBLEMS, TOO_MANY_PROBLEMS, PipelineError
from pipelines.language.names import describe_unknown, suggest
from pipelines.pipeline import Pipeline
from pipelines.transforms import source
from pipelines.transforms.transform import Transforms

BEGIN = "pipeline:\n- {stage: load_csv, args: [a.csv]}\n"
CALL = "- {stage: 'python_row_transform:f'}\n"
PLAIN = "def f(row): return row\n"
DEEP = "-" * 7000 + "1"


def told(function: Callable[[], object]) -> list[str]:
    with pytest.raises(PipelineError) as error:
        function()
    return [str(problem) for problem in error.value.problems]


def planned(text: str, **own: str) -> Callable[[], object]:
    return lambda: Pipeline.from_yaml(text).check(Transforms(own))


@pytest.mark.parametrize(
    "read",
    [source.list_functions, Transforms.from_text, partial(source.read_function, "f")],
    ids=["names", "file", "read"],
)
def test_a_large_text_is_refused_before_it_is_parsed(
    monkeypatch: pytest.MonkeyPatch, read: Callable[[str], object]
) -> None:
    monkeypatch.setattr(source, "ast", None)
    assert told(lambda: read(PLAIN + "x=[a]\n" * 12_000)) == ["a row transform may have at most 64 KiB"]


@pytest.mark.parametrize("text", [PLAIN, "def f(row: ..."], ids=["right", "wrong"])
def test_a_function_is_read_once_however_many_stages_call_it(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    read, reads = source.read_function, list[str]()

    def counted(name: str, text: str) -> source.Function:
        reads.append(name)
        return read(name, text)

    monkeypatch.setattr(source, "read_function", counted)
    calls = CALL + CALL.replace(":f", ":F_") + CALL
    if text == PLAIN:
        planned(BEGIN + calls, f=text)()
    else:
        assert len(told(planned(BEGIN + calls, f=text))) == 3
    assert reads == ["f"]


@pytest.mark.parametrize(
    ("returns", "message"),
    [
        (r'"\ud800"', "what f returns cannot be read"),
        (f'"{DEEP}"', "what f returns cannot be read"),
        (r'"a\0b"', "what f returns cannot be read"),
        ('"not a type"', "what f returns cannot be read"),
        (r'{"a": "\ud800"}', "the type of 'a' fits no column"),
        (f'{{"a": "{DEEP}"}}', "the type of 'a' fits no column"),
        (r'{"a": list["\ud800"]}', "the type of 'a' fits no column"),
        ('{"a": Annotated[Decimal, "decimal(39,2)"]}', "the type of 'a' fits no column"),
        ('{"a": Annotated[float, "decimal(10,2)"]}', "the type of 'a' fits no column"),
        (r'{"\ud800": str}', r"the column '\ud800' has a character in its name that cannot be stored"),
        (r'{"\0": str}', r"the column '\x00' has a character in its name that cannot be stored"),
        ('{"_Status": str}', "a column cannot be called _Status: it is the engine's own"),
        ('{"": str}', "a column must have a name"),
        ('{"a": str, **b}', "a column's name must be a text"),
        (f"{{0x{'f' * 5000}: str}}", "a column's name must be a text"),
    ],
    ids=range(15),
)
def test_an_invalid_return_type_is_an_error_with_its_line(returns: str, message: str) -> None:
    (found,) = told(lambda: source.read_function("f", f"import re\ndef f(row) -> {returns}: return row\n"))
    assert found.startswith(f"line 2: {message}")


def test_an_invalid_column_class_is_an_error_with_its_line() -> None:
    text = 'class R(TypedDict):\n  a: int\n  b: "\\ud800"\n' + PLAIN.replace(")", ") -> R")
    (found,) = told(lambda: source.read_function("f", text))
    assert found.startswith("line 3: the type of 'b' fits no column")


def test_a_function_defined_twice_is_an_error() -> None:
    text = PLAIN + "\ndef F(row): return None\n"
    assert told(lambda: source.read_function("f", text)) == ["line 3: F is defined twice: the first time in line 1"]
    assert source.list_functions(PLAIN + PLAIN) == ("f",)


def test_a_sentence_of_very_long_names_stays_short() -> None:
    long = "q" * 50_000
    (found,) = told(lambda: source.read_function("f", f"def f(row) -> {{'{long}': complex}}: return row\n"))
    assert len(found) < 500
    (found,) = told(lambda: source.read_function("f", f"def {long}(): return row\n"))
    assert len(found) < 600


def test_the_first_hundred_missing_functions_are_listed() -> None:
    text = BEGIN + "".join(f"- {{stage: 'python_row_transform:q{n}'}}\n" for n in range(900))
    warnings = Pipeline.from_yaml(text).check(Transforms({f"z{n}": PLAIN for n in range(900)}))
    assert len(warnings) == MAX_PROBLEMS + 1
    assert str(warnings[-1]) == f"line {MAX_PROBLEMS + 3}: {TOO_MANY_PROBLEMS}"
    assert max(len(str(each)) for each in warnings) < 1000


def test_the_first_hundred_wrong_calls_are_listed() -> None:
    one = "- {stage: 'python_row_transform:f', args: {a: 1}}\n"
    assert told(planned(BEGIN + one * 900, f=PLAIN))[-1].endswith(TOO_MANY_PROBLEMS)
    assert len(told(planned(BEGIN + one * 900, f=PLAIN))) == MAX_PROBLEMS + 1
    many = one.replace("a: 1", ", ".join(f"q{n}: 1" for n in range(900)))
    takes = ", ".join(f"n{n}{'x' * 100}=0" for n in range(400))
    found = told(planned(BEGIN + many, f=f"def f(row, *, {takes}): return row\n"))
    assert len(found) == MAX_PROBLEMS
    assert max(map(len, found)) < 4000


def test_an_unknown_name_is_an_error_that_lists_known_names() -> None:
    assert describe_unknown("word", "x", ()) == "unknown word 'x'; known are none"
    assert describe_unknown("word", "x", ("bee", "Ant")) == "unknown word 'x'; known are Ant, bee"
    sentence = describe_unknown("word", "?" * 1000, (f"{n:03}{'x' * 1000}" for n in range(300)))
    assert sentence.startswith(f"unknown word '{'?' * 59}…'; known are 000xxx")
    assert sentence.endswith("x… and 260 more")
    assert len(sentence) < 3000


def test_names_that_would_take_long_to_compare_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[int, int]] = []

    def count(name: str, known: list[str], n: int, cutoff: float) -> list[str]:
        compared.append((len(known), max(map(len, known))))
        return known[:n]

    monkeypatch.setattr("pipelines.language.names.difflib.get_close_matches", count)
    known = ["k" * 65, *(f"{n:03}" + "k" * 61 for n in range(1000))]
    assert suggest("k" * 65, known) == suggest("", known) == []
    suggest("k" * 64, known)
    suggest("k" * 20, known)
    assert compared == [(24, 64), (200, 64)]


def test_a_missing_function_is_an_error_that_explains_registration() -> None:
    (warning,) = Pipeline.from_yaml(BEGIN + CALL).check()
    assert str(warning) == (
        "line 3: unknown row transform 'f'; known are none (one is registered with the agent, by "
        "POST /svc/api/agents/{agentId}/python-extensions, or by a plugin; "
        "`spindle run` and `check` take a file of them: --transforms FILE)"
    )


def test_parameters_are_those_of_the_keys_that_the_engine_reads() -> None:
    text = BEGIN + "- {stage: limit, args: ['${N}']}\n"
    ignored = "notes: 'see ${HOME_PAGE}'\npython_extensions: {stages: {f: {function: 'def f(row): \"${X}\"'}}}\n"
    pipeline = Pipeline.from_yaml(ignored + text)
    assert pipeline.parameters == {"N"}
    assert "limit 3" in str(pipeline.plan({"N": 3}))
