"""No test asserts how long something took: its seconds are those of a machine that others use as well."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
STOPWATCHES = {"monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns"}
MENTION = r"monotonic|perf_counter|time\(\)|now\("
CLOCKS = {"now", "time", "time_ns"}  # whose moments may be compared, and whose differences may not
CALCULATIONS = {"abs", "float", "int", "max", "min", "round", "sorted", "sum"}


def is_elapsed(node: ast.AST, measured: set[str]) -> bool:
    """Return whether a value comes from a stopwatch, a difference to the present, or one of the `measured` names."""
    match node:
        case ast.Name(id=name):
            return name in measured
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)):
            inner = node.args if name in CALCULATIONS else [getattr(node.func, "value", node.func)]
            return name in STOPWATCHES | measured or any(is_elapsed(each, measured) for each in inner)
        case ast.BinOp(op=ast.Sub()) if is_present(node.left) or is_present(node.right):
            # a moment in the past is no duration
            return not isinstance(node.right, ast.Call) or not is_call(node.right, "timedelta")
    return any(is_elapsed(each, measured) for each in ast.iter_child_nodes(node))


def is_present(node: ast.AST) -> bool:
    return any(is_call(node, name) for name in CLOCKS)


def is_call(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Call) and name == getattr(node.func, "attr", getattr(node.func, "id", None))


def list_measured(scope: ast.AST, functions: set[str]) -> set[str]:
    """Return the names that get measured values in a function, and `functions` that return some."""
    measured: set[str] = set()
    before = {""}
    while before != measured:
        before = {*measured}
        for node in ast.walk(scope):
            match node:
                case ast.Assign(targets=targets, value=value):
                    pass
                case (
                    ast.AnnAssign(target=target, value=ast.expr() as value)
                    | ast.AugAssign(target=target, value=value)
                    | ast.NamedExpr(target=target, value=value)
                    | ast.For(target=target, iter=value)
                    | ast.comprehension(target=target, iter=value)
                    | ast.Call(func=ast.Attribute(value=target, attr="append" | "extend"), args=[value])
                ):
                    targets = [target]
                case _:
                    continue
            if is_elapsed(value, measured | functions):
                measured |= {each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)}
    return measured | functions


def find_elapsed(text: str) -> Iterator[int]:
    """Yield the lines of assertions that compare measured durations."""
    tree = ast.parse(text)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    returning: set[str] = set()
    for function in functions:
        measured = list_measured(function, returning)
        values = [node.value for node in ast.walk(function) if isinstance(node, ast.Return) and node.value]
        returning |= {function.name} if any(is_elapsed(value, measured) for value in values) else set()
    for function in functions:
        measured = list_measured(function, returning)
        asserted = [node.test for node in ast.walk(function) if isinstance(node, ast.Assert)]
        compared = [node for test in asserted for node in ast.walk(test) if isinstance(node, ast.Compare)]
        yield from (node.lineno for node in compared if is_elapsed(node, measured))


@pytest.mark.parametrize(
    "line",
    [
        "assert monotonic() - began < 5",
        "took = time.monotonic() - began\n    assert 1 < took",
        "moments = [time.perf_counter() for _ in pages]\n    assert moments[-1] - moments[0] > 0.5",
        "waits.append(time.monotonic() - began)\n    assert max(waits) < 2, waits",
        "assert abs(datetime.now(UTC) - sent) < timedelta(minutes=1)",
        "assert (time.time() - began < 5, True) == (True, True)",
        "def once():\n        return time.monotonic() - began\n    assert once() < 5",
    ],
)
def test_an_assertion_of_seconds_is_found(line: str) -> None:
    assert [*find_elapsed(f"def test():\n    {line}\n")]


def test_an_order_of_moments_is_none() -> None:
    assert not [
        *find_elapsed("def test():\n    begun = now()\n    assert begun <= sent <= now() + timedelta(hours=1)\n")
    ]


def test_no_test_asserts_seconds() -> None:
    files = {str(file.relative_to(TESTS)): file.read_text("utf-8") for file in TESTS.rglob("*.py")}
    places = {
        f"{file}:{line}"
        for file, text in files.items()
        if not file.startswith("support") and re.search(MENTION, text)
        for line in find_elapsed(text)
    }
    assert places == set(), "assert an order of facts or a count, or move a clock (tests/support/clock.py)"
