"""Conversion of an uploaded file of any supported format."""

from __future__ import annotations

from pathlib import Path

from core.data.files.conversion import convert_csv, convert_jsonl, convert_parquet
from core.data.files.detection import decode, decompress, detect_csv, detect_text_format, is_parquet
from core.data.files.messages import ConversionRequest, ConvertedFile, Detected, RejectedFile
from core.data.files.wanted_types import WantedTypes


def convert_file(request: ConversionRequest) -> ConvertedFile:
    """Convert an uploaded file to `rows.parquet` in the folder. Raises RejectedFile."""
    source, folder = Path(request.source), Path(request.folder)
    if not source.stat().st_size:
        raise RejectedFile("empty-file", "The file is empty.")
    compression = decompress(source, folder / "decompressed", request.max_bytes)
    if compression:
        source.unlink()
        source = folder / "decompressed"
    target, encoding, dialect = folder / "rows.parquet", None, None
    wanted = WantedTypes(request.columns, request.allow_type_changes)
    if is_parquet(source):
        format, written = "parquet", convert_parquet(source, target, request.max_bytes, wanted)
    elif request.format == "parquet":
        raise RejectedFile("invalid-file", "The file is not Parquet.")
    else:
        encoding = decode(source, folder / "decoded", request.encoding, request.max_bytes)
        if (folder / "decoded").exists():
            source.unlink()
            source = folder / "decoded"
        format = detect_text_format(source, request.format)
        if format == "csv":
            dialect = detect_csv(source, request.delimiter, request.header)
        written = convert_csv(source, dialect, target, wanted) if dialect else convert_jsonl(source, target, wanted)
    detected = Detected(format, compression, encoding, dialect and dialect.delimiter, dialect and dialect.header)
    columns = [column | ({"untyped": True} if column["name"] in wanted.untyped else {}) for column in written.columns]
    counts = written.rows, written.bytes
    return ConvertedFile(str(target), columns, *counts, written.preview, detected, written.warnings)
