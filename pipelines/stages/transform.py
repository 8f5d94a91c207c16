"""python_row_transform:NAME: replace rows by the result of a Python function."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from itertools import islice
from typing import Annotated, Any, cast

from pydantic import Field, PrivateAttr, model_validator

from pipelines.contract.workers import BatchWorker, Tools
from pipelines.errors import MAX_PROBLEMS, ArgumentError, PipelineError, Problem, RunError
from pipelines.extract.rows import Row
from pipelines.language.columns import ENGINE_COLUMNS, Columns, check_not_reserved
from pipelines.language.names import describe_unknown, normalize, truncate_name, validate_choice
from pipelines.language.origins import OTHERS, UNKNOWN_ORIGIN, Origin
from pipelines.planning.stage import RowStage, register_stage
from pipelines.transforms.sandbox import Outcome, RowFailed
from pipelines.transforms.schema import TypeMismatch, convert_row, keep_matching_values
from pipelines.transforms.transform import Transform, Transforms


class OnError(StrEnum):
    """Whether a row for which the function raises becomes a row with `_error`, or ends the run."""

    ROW = "row"
    FAIL = "fail"


@register_stage("python_row_transform")
class PythonRowTransform(RowStage):
    """Replace each row by the result of a Python function; None drops the row.

    `python_row_transform:clean` calls the function `clean` of a plugin or of the agent, with the row as a dict
    (including engine columns) and the arguments as keywords. Users' functions run in a sandbox with 10 s per row and
    512 MiB; they can use Python's standard library, but neither files nor the network.

    If the function raises, or returns a column or type that was not declared, the row keeps its position and all values
    that fit, and `_error` is set; with `onError: fail` the run ends. Declare the columns as the return type, a
    TypedDict or a dataclass. Otherwise the first 100 rows decide, and later rows must match them. A `Decimal` stays
    exact: declared, it has 18 digits after the point, or those of `Annotated[Decimal, "decimal(10,2)"]`.

    ```python
    from typing import TypedDict


    class Loud(TypedDict):
        name: str
        page: str


    def shout(row, *, times=1) -> Loud:
        return {"name": row["name"].upper() * times, "page": row["_url"]}
    ```

    `spindle run FILE --transforms shout.py` (and `check`) load the functions of a Python file; in a notebook, use
    `Pipeline.from_yaml(text).run(spark, transforms={"shout": shout})`.
    """

    example = """
fetch: {url: "${SHOP}/"}
pipeline:
  - {stage: flatSelect, args: [li.product, {selector: a, as: name}]}
  - {stage: "python_row_transform:shout", args: {times: 2, onError: fail}}
"""

    takes_name = True
    is_slow = True
    rest = "keywords"
    keywords: Mapping[str, Any] = Field(default_factory=dict)
    on_error: Annotated[OnError, validate_choice("choice", OnError)] = Field(OnError.ROW, alias="onError")
    _transform: Transform | None = PrivateAttr(None)

    @model_validator(mode="before")
    @classmethod
    def _gather_keywords(cls, data: Any) -> Any:
        """Collect all arguments except onError as keywords of the function, from a map or a list of maps."""
        given: dict[str, Any] = {}
        for name, value in cast(dict[str, Any], data).items():
            for each in cast(list[Any], value) if name == "keywords" and isinstance(value, list) else [{name: value}]:
                if not isinstance(each, dict):
                    raise ArgumentError("a row transform takes its arguments by name: a map")
                given.update(cast(dict[str, Any], each))
        own = {name: value for name, value in given.items() if normalize(name) == normalize("onError")}
        return {**own, "keywords": {name: value for name, value in given.items() if name not in own}}

    def resolve(self, name: str, transforms: Transforms) -> PythonRowTransform:
        """Raises Unknown for a name that is not registered, PipelineError for arguments that the function lacks."""
        try:
            transform = transforms.find(name)
        except PipelineError as error:
            where = f"in the function '{truncate_name(name)}'"
            raise PipelineError(Problem("", f"{where}, {each}", code=each.code) for each in error.problems) from error
        wrong = list(islice(self._find_problems(transform), MAX_PROBLEMS))
        if wrong:
            raise PipelineError(wrong)
        resolved = self.model_copy()
        resolved._transform = transform
        return resolved

    def _find_problems(self, transform: Transform) -> Iterable[Problem]:
        called, takes = truncate_name(transform.name), transform.function.keywords
        for name in self.keywords:
            if name not in takes.names and not takes.others:
                message = f"{called}: {describe_unknown('argument', name, takes.names)}"
                yield Problem("", message, code="unknown-argument")
        for name in takes.required:
            if name not in self.keywords:
                message = f"{called}: the argument '{truncate_name(name)}' is missing"
                yield Problem("", message, code="missing-argument")
        for name, _ in transform.function.columns or ():
            try:
                check_not_reserved(name)
            except ArgumentError as error:
                yield Problem("", f"{called}: {error}", code=error.code)

    def infer_columns(self, before: Columns) -> Columns:
        declared = self._transform.function.columns if self._transform else None
        return Columns(declared) if declared is not None else Columns(open=True)

    def trace_columns(self, before: Columns) -> Mapping[str, Origin]:
        return dict.fromkeys((*self.infer_columns(before), OTHERS), UNKNOWN_ORIGIN)

    @property
    def fails_run(self) -> bool:
        return self.on_error is OnError.FAIL

    def work(self, tools: Tools) -> BatchWorker:
        if self._transform is None:
            raise RunError("a row transform without a function cannot run")
        make, columns = self._transform.make_runner(self.keywords), self._transform.function.columns

        def replace_row(row: Row, outcome: Outcome) -> Iterable[Row]:
            if outcome is None:
                return ()
            if isinstance(outcome, RowFailed):
                return (mark_failed(row, outcome, _convert_values(row)),)
            made = _drop_engine_columns(outcome)
            try:
                return (row.replace_values(made if columns is None else convert_row(made, columns)),)
            except TypeMismatch as error:
                return (mark_failed(row, error, made),)

        def mark_failed(row: Row, error: Exception, values: dict[str, object]) -> Row:
            sentence = f"{name}: {error}"
            if self.fails_run:
                raise RunError(f"python_row_transform:{sentence}") from None
            return row.mark_failed(sentence, values if columns is None else keep_matching_values(values, columns))

        name = self._transform.name
        return BatchWorker(lambda rows: map(replace_row, rows, make(_convert_row(row) for row in rows)))


def _drop_engine_columns(outcome: dict[str, Any]) -> dict[str, Any]:
    """Return the function's row without engine columns, which it may return unchanged."""
    return {name: value for name, value in outcome.items() if name not in ENGINE_COLUMNS}


def _convert_row(row: Row) -> dict[str, object]:
    engine = {name: _convert_value(value) for name, value in row.get_engine_values().items() if name not in row.values}
    return {**_convert_values(row), **engine}


def _convert_values(row: Row) -> dict[str, object]:
    return {name: _convert_value(value) for name, value in row.values.items()}


def _convert_value(value: object) -> object:
    """Convert a map, which Arrow represents as pairs, to a dict, and an ordinal to a list."""
    if isinstance(value, list) and value and all(isinstance(each, tuple) for each in cast(list[object], value)):
        return dict(cast(list[tuple[object, object]], value))
    return list(cast(tuple[object], value)) if isinstance(value, tuple) else value
