"""load_rows: begin with the rows that an execution was given."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from io import StringIO
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from pipelines.contract.request import GIVEN_ROWS
from pipelines.errors import ArgumentError, RunError
from pipelines.filesystem import read_file
from pipelines.language.columns import Columns, check_column_name, check_not_reserved
from pipelines.language.names import truncate
from pipelines.planning.stage import Source, register_stage
from pipelines.spark.dataframes import create_rows
from pipelines.stages.documents import is_web_address, split_addresses

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from pipelines.contract.context import RunContext

MAX_ROWS = 10_000
_MAX_COLUMNS = 2_000
_LINES = (".jsonl", ".ndjson")
_SEPARATORS = {".csv": ",", ".tsv": "\t"}
_KINDS: Mapping[type, str] = {
    bool: "true or false",
    int: "a number",
    float: "a number",
    list: "a list",
    type(None): "null",
}

GivenRow = dict[str, Any]


class InvalidRows(ValueError):
    """Values that are no rows. The message is a sentence without a point; `number` counts the first one from 0."""

    def __init__(self, sentence: str, number: int | None = None) -> None:
        super().__init__(sentence)
        self.number = number


def check_rows(values: Sequence[object]) -> list[GivenRow]:
    """Return the rows that values of JSON are: objects, or addresses as `{"url": …}`; raise InvalidRows."""
    if not values:
        raise InvalidRows("there are no rows")
    if len(values) > MAX_ROWS:
        raise InvalidRows(f"there are {len(values):,} rows, and an execution may be given {MAX_ROWS:,}")
    rows, spellings = list[GivenRow](), dict[str, str]()
    for number, value in enumerate(values):
        row = {"url": value.strip()} if isinstance(value, str) else value
        if not isinstance(row, dict):
            kind = _KINDS.get(type(value), "no object")
            raise InvalidRows(f"row {number + 1} is {kind}; a row is an address, or an object of columns", number)
        if isinstance(value, str) and not is_web_address(row["url"]):
            raise InvalidRows(f"row {number + 1} is no address of http or https: '{truncate(value, 60)}'", number)
        if problem := _find_problem(row, spellings):
            raise InvalidRows(f"row {number + 1} {problem}", number)
        rows.append(row)
    return rows


def _find_problem(row: GivenRow, spellings: dict[str, str]) -> str | None:
    """Return why a row fits no table with the columns of the earlier rows, by their spellings; None where it fits."""
    if not row:
        return "has no columns"
    for name in row:
        try:
            check_column_name(name)
            check_not_reserved(name)
        except ArgumentError as error:
            return f"cannot be used: {error}"
        if (other := spellings.setdefault(name.casefold(), name)) != name:
            return f"has a column '{name}' beside '{other}': rename one of them"
    if len(spellings) > _MAX_COLUMNS:
        return f"is the first with more than {_MAX_COLUMNS:,} columns in all"
    try:
        json.dumps(row, ensure_ascii=False, default=str).encode()
    except RecursionError:
        return "is nested too deep"
    except UnicodeEncodeError:
        return "has a text that is not Unicode"
    return None


def parse_rows(name: str, content: bytes, read: Callable[[str], object] = json.loads) -> list[object]:
    """Return the values in a file: JSON in each line or in a list, CSV, or a text with an address in each line.

    `read` reads JSON. Raises InvalidRows for a file that is none of these by its name.
    """
    suffix = PurePath(name).suffix.lower()
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidRows("it is no text in UTF-8") from None
    if suffix in _SEPARATORS:
        return [*_parse_csv(text, _SEPARATORS[suffix])]
    if suffix in _LINES:
        lines = enumerate(text.split("\n"), start=1)
        return [_parse_json(line, f"line {number}", read) for number, line in lines if line.strip()]
    if suffix == ".json":
        found = _parse_json(text, "it", read)
        return found if isinstance(found, list) else [found]
    return [*split_addresses(text)]


def _parse_json(text: str, subject: str, read: Callable[[str], object]) -> object:
    try:
        return read(text)
    except (ValueError, RecursionError):
        raise InvalidRows(f"{subject} is not JSON") from None


def _parse_csv(text: str, separator: str) -> Iterator[GivenRow]:
    reader = csv.DictReader(StringIO(text, newline=""), delimiter=separator, strict=True)
    try:
        for row in reader:
            if None in row:
                raise InvalidRows(f"line {reader.line_num} has more values than the header")
            yield {name: value or None for name, value in row.items()}
    except csv.Error as error:
        raise InvalidRows(f"line {reader.line_num} is not CSV: {error}") from None


@register_stage("load_rows")
class LoadRows(Source):
    """Begin with the rows that this one execution was given, up to 10,000: addresses, or objects of columns.

    They are `rows` in the body of `execute`, or a file for `--rows` of `spindle execute`, `run` and `try`: JSON lines,
    a list of JSON, CSV, or a text with an address in each line. An address is a row with the column `url`. Columns have
    the [types of uploads](datasets.md#types). Retries of the execution have the same rows.
    """

    example = """
pipeline:
  - {stage: load_rows}
  - {stage: wget, args: [$url]}
  - {stage: extract, args: [{selector: h1, as: title}]}
"""

    reads_given_rows = True

    def infer_columns(self, before: Columns) -> Columns:
        return Columns(open=True)

    def needs_spark(self, before: Columns) -> bool:
        return False

    def load(self, spark: SparkSession, context: RunContext) -> DataFrame:
        table, _ = self.load_locally(context)
        return create_rows(spark, table)

    def load_locally(self, context: RunContext) -> tuple[pa.Table, Columns]:
        import pyarrow as pa

        from pipelines.columns.types import get_columns
        from pipelines.engine.json_rows import InvalidRow, Values, convert_values, read_value

        if (files := context.inputs.get(GIVEN_ROWS)) is None:
            raise RunError("load_rows has no rows: give them by --rows FILE, or as 'rows' in the body of execute")
        (path,) = files.paths
        content, values = read_file(path), Values()
        if content is None:
            raise RunError("the rows that the execution was given were removed: execute the job with them again")
        try:
            rows = check_rows(parse_rows(path, content, read_value))
            values.add(rows)
        except (InvalidRows, InvalidRow) as error:
            raise RunError(f"the given rows cannot be read: {error}") from None
        types = {name: each.decide() for name, each in values.fields.items()}
        arrays = [convert_values([row.get(name) for row in rows], type_) for name, type_ in types.items()]
        given = pa.table(arrays, names=[*types])
        ordinals = pa.array([[number] for number in range(len(rows))], pa.list_(pa.int64()))
        return given.append_column("_ordinal", ordinals), get_columns(given.schema)
