"""Requests to a process that reads files, and its answers: in JSON lines, or the rows of an export."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

Format = Literal["csv", "jsonl", "parquet"]


@dataclass(frozen=True, slots=True)
class ConversionRequest:
    """Convert the uploaded file `source` to Parquet in the folder. Facts of its format that are None are detected.

    `columns` are names and Spark's types of the version before.
    """

    source: str
    folder: str
    max_bytes: int
    format: Format | None = None
    delimiter: str | None = None
    header: bool | None = None
    encoding: str | None = None
    columns: Sequence[tuple[str, str]] = ()
    allow_type_changes: bool = False


@dataclass(frozen=True, slots=True)
class DescribeRequest:
    """Count the rows of files of one format, and list their columns."""

    folder: str
    files: Sequence[str]
    format: str


@dataclass(frozen=True, slots=True)
class ExportRequest:
    """Write the rows of files in another format; without files, these columns and no rows."""

    folder: str
    files: Sequence[str]
    source_format: str
    format: str
    columns: Sequence[tuple[str, str]] = ()
    partition_by: Sequence[str] = ()  # whose values are in the names of folders


Request = ConversionRequest | DescribeRequest | ExportRequest
REQUESTS: dict[str, type[Request]] = {
    each.__name__: each for each in (ConversionRequest, DescribeRequest, ExportRequest)
}


@dataclass(frozen=True, slots=True)
class Detected:
    """The format of an upload. Facts that a format does not have are None."""

    format: Format
    compression: str | None = None
    encoding: str | None = None
    delimiter: str | None = None
    header: bool | None = None


@dataclass(frozen=True, slots=True)
class ConvertedFile:
    """The rows of an upload as a Parquet file on this machine, the first as JSON text, with the detected format.

    Columns that never had a value are `untyped`.
    """

    path: str
    columns: Sequence[dict[str, Any]]
    row_count: int
    size_bytes: int
    preview: str
    detected: Detected
    warnings: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class DescribedFiles:
    """Columns under Spark's type names, and the number of rows."""

    columns: Sequence[dict[str, str]]
    row_count: int


class RejectedFile(Exception):
    """The file cannot be read as rows. `code` is a stable name, the message a sentence for the caller."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def write_request(request: Request, seconds: float) -> bytes:
    """Return the line of a request. After these seconds the process ends itself."""
    return json.dumps({"request": type(request).__name__, "seconds": seconds, **asdict(request)}).encode() + b"\n"


def read_request(line: bytes) -> tuple[Request, float]:
    fields = json.loads(line)
    kind, seconds = REQUESTS[fields.pop("request")], fields.pop("seconds")
    return kind(**fields), seconds


def write_answer(answer: ConvertedFile | DescribedFiles | RejectedFile) -> bytes:
    rejected = isinstance(answer, RejectedFile)
    fields = {"code": answer.code, "message": str(answer)} if rejected else asdict(answer)
    return json.dumps({"answer": type(answer).__name__, **fields}).encode()


def read_answer(line: bytes) -> ConvertedFile | DescribedFiles:
    """Return the answer; raise RejectedFile where that is the answer."""
    fields = json.loads(line)
    match fields.pop("answer"):
        case "ConvertedFile":
            return ConvertedFile(**fields | {"detected": Detected(**fields["detected"])})
        case "DescribedFiles":
            return DescribedFiles(**fields)
        case _:
            raise RejectedFile(**fields)
