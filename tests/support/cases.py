"""Tables of cases that one test runs, with the fixtures of one."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

import pytest

Test = Callable[..., None]


def each_case(names: str | tuple[str, ...], cases: Iterable[Any]) -> Callable[[Test], Test]:
    """Run the decorated test with each case, as `parametrize` does, but as one test whose failure names all that fail.

    The cases share the fixtures of the test, whose start costs more than a case.
    """
    columns = (names,) if isinstance(names, str) else names
    rows = [*cases]

    def decorate(test: Test) -> Test:
        @wraps(test)
        def run(*self: object, **fixtures: Any) -> None:
            failures: list[Exception] = []
            for case in rows:
                values = (case,) if isinstance(names, str) else case
                try:
                    test(*self, **fixtures, **dict(zip(columns, values, strict=True)))
                except (Exception, pytest.fail.Exception) as error:
                    failure = AssertionError(f"{case!r:.200}: {error}")
                    failures.append(failure.with_traceback(error.__traceback__))
            if failures:
                raise ExceptionGroup(f"{len(failures)} of {len(rows)} cases fail", failures)

        signature = inspect.signature(test)
        kept = [each for name, each in signature.parameters.items() if name not in columns]
        run.__dict__["__signature__"] = signature.replace(parameters=kept)
        return run

    return decorate
