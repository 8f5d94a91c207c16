"""Conversion of an uploaded file of any supported format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from core.data.files.conversion import Written, convert_csv, convert_jsonl, convert_parquet
from core.data.files.detection import decode, decompress, detect_csv, detect_text_format, is_parquet
from core.data.files.errors import RejectedFile


def take(request: dict[str, Any]) -> dict[str, Any]:
    """Convert an uploaded file to `rows.parquet` in the folder; return the detected format and the written rows."""
    source, folder, limit = Path(request["source"]), Path(request["folder"]), request["maxBytes"]
    if not source.stat().st_size:
        raise RejectedFile("empty-file", "The file is empty.")
    compression = decompress(source, folder / "decompressed", limit)
    if compression:
        source.unlink()
        source = folder / "decompressed"
    target, hint = folder / "rows.parquet", request["format"]
    found: dict[str, Any] = {"compression": compression, "encoding": None, "delimiter": None, "header": None}
    if is_parquet(source):
        written, found["format"] = convert_parquet(source, target, limit), "parquet"
    elif hint == "parquet":
        raise RejectedFile("invalid-file", "The file is not Parquet.")
    else:
        found["encoding"] = decode(source, folder / "decoded", request["encoding"], limit)
        if (folder / "decoded").exists():
            source.unlink()
            source = folder / "decoded"
        found["format"] = detect_text_format(source, hint)
        written = _convert_text(source, target, found, request)
    return {"columns": written.columns, "rows": written.rows, "bytes": written.bytes, "preview": written.preview} | {
        "detected": found
    }


def _convert_text(source: Path, target: Path, found: dict[str, Any], request: dict[str, Any]) -> Written:
    if found["format"] == "jsonl":
        return convert_jsonl(source, target)
    dialect = detect_csv(source, request["delimiter"], request["header"])
    found |= {"delimiter": dialect.delimiter, "header": dialect.header}
    return convert_csv(source, dialect, target)
