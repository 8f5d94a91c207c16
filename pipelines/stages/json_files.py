"""The columns of JSON files, by the rules of uploads.

Functions import what needs pyarrow: the engine is imported without it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from pipelines.errors import RunError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

_TEXT = r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\''
_COMMENT = r"/\*.*?\*/|//[^\n]*"
_TOKENS = re.compile(rf"{_TEXT}|{_COMMENT}|[{{}}\[\]]", re.DOTALL)
_SPACE = re.compile(rf"(?:\s|{_COMMENT})*", re.DOTALL)
_START = re.compile(rf"{_SPACE.pattern}(?:\{{|\[{_SPACE.pattern}[\{{\]])", re.DOTALL)  # an object, or a list of them


def infer_json_columns(
    spark: SparkSession, paths: Sequence[str], options: Mapping[str, Any], is_whole: bool
) -> StructType | None:
    """Return the columns that the rows of all files show, sorted by name; None for files that only Spark's own rules
    read. Each line is an object, or `is_whole` files are one or a list of them.
    """
    import pyarrow as pa
    from pyspark.sql.pandas.types import from_arrow_schema

    from pipelines.engine.json_rows import MAX_FIELDS, Values

    decoder = msgspec.msgpack.Decoder(Values)
    lines = spark.read.options(**options).text(list(paths), wholetext=is_whole).select("value")
    values = Values()
    for (part,) in lines.mapInArrow(partial(_show_values, is_whole), "shown binary").collect():
        if not part:
            return None
        values.merge(decoder.decode(part))
    if not 0 < len(values.fields) <= MAX_FIELDS:
        return None
    if not values.has_own_names():
        raise RunError(f"'{', '.join(paths)}' has columns that differ only in case: rename one of them")
    values.sort_fields()
    schema = pa.schema([pa.field(name, each.decide()) for name, each in values.fields.items()])
    return from_arrow_schema(schema, prefer_timestamp_ntz=True)


def check_text_after_objects(
    spark: SparkSession, paths: Sequence[str], options: Mapping[str, Any], is_whole: bool
) -> None:
    """Raise RunError where Spark leaves out text after an object, also one that is not strictly JSON."""
    lines = spark.read.options(**options).text(list(paths), wholetext=is_whole).select("value")
    if lines.mapInArrow(_find_text_after_values, "value string").head(1):
        place = "one list" if is_whole else "a line of its own"
        raise RunError(f"'{', '.join(paths)}' has text after an object of JSON; put each object in {place}")


def has_text_after_value(text: str) -> bool:
    """Return whether text follows the object or list at the start, in which names and texts may be in single quotes."""
    if _START.match(text) is None:
        return False
    depth = 0
    for token in _TOKENS.finditer(text):
        depth += token[0] in "{["
        depth -= token[0] in "}]"
        if depth <= 0 and token[0] in "}]":
            return _SPACE.fullmatch(text, token.end()) is None
    return False


def _find_text_after_values(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    decoder = msgspec.json.Decoder(msgspec.Raw)  # skims strict JSON thirty times as fast
    for batch in batches:
        yield batch.filter(
            [not _is_json(decoder, text) and has_text_after_value(text) for text in batch[0].to_pylist()]
        )


def _is_json(decoder: msgspec.json.Decoder[msgspec.Raw], text: str) -> bool:
    try:
        decoder.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def _show_values(is_whole: bool, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return what the rows of one partition have in common, in a Python worker; nothing where one is no object."""
    import pyarrow as pa

    from pipelines.engine.json_rows import InvalidRow, Values, read_object

    values = Values()
    try:
        for batch in batches:
            texts = (text for text in batch.column(0).to_pylist() if text.strip())
            values.add([*_read_files(texts)] if is_whole else [*map(read_object, texts)])
        shown = msgspec.msgpack.encode(values)
    except InvalidRow:
        shown = b""
    yield pa.record_batch([pa.array([shown], pa.binary())], names=["shown"])


def _read_files(texts: Iterable[str]) -> Iterator[dict[str, Any]]:
    from pipelines.engine.json_rows import InvalidRow, read_value

    for text in texts:
        found = read_value(text)
        for each in found if isinstance(found, list) else [found]:
            if not isinstance(each, dict):
                raise InvalidRow("it is not an object")
            yield each
