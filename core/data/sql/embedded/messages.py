"""Requests to a query process, and its answers: JSON lines, and the rows as JSON after the last one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal, Self

from core.data.sql.rows import MAX_PAGE_BYTES
from pipelines.duckdb.views import View

Failure = Literal["refused", "too large", "memory", "failed"]


@dataclass(frozen=True, slots=True)
class QueryRequest:
    """A statement of DuckDB over views. With `store`, its rows are written to this Parquet file and not answered."""

    sql: str
    views: Sequence[View] = ()
    explain: bool = False
    exact_numbers: bool = False
    max_bytes: int = MAX_PAGE_BYTES
    store: str | None = None
    seconds: float = 0  # until the process ends itself

    def to_line(self) -> bytes:
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> Self:
        fields = json.loads(line)
        return cls(**fields | {"views": [View(**view) for view in fields["views"]]})


@dataclass(frozen=True, slots=True)
class Header:
    """A line of an answer. One with `progress`, a share from 0 to 1, is not the last; `size` bytes follow the last."""

    columns: Sequence[tuple[str, str]] = ()  # names, and DuckDB's types
    rows: int = 0
    size: int = 0
    progress: float | None = None
    failure: Failure | None = None
    message: str = ""
    code: str = "query-failed"

    def to_line(self) -> bytes:
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> Self:
        return cls(**json.loads(line))


@dataclass(frozen=True, slots=True)
class QueryAnswer:
    """The last header, and the rows as the JSON text of an array."""

    header: Header
    body: bytes
