"""The check of XML files: Spark skips what it cannot parse, and takes the end of a file for that of its root."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pipelines.errors import RunError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

_MAX_BYTES = 1 << 30  # of a file; Spark hands over no larger one as a whole
_PIECE = 1 << 20  # bytes
_GZIP_START = b"\x1f\x8b"


def check_xml_files(spark: SparkSession, paths: Sequence[str], options: Mapping[str, Any]) -> None:
    """Raise RunError for the first file of at most 1 GiB that is not well-formed."""
    files = spark.read.options(**options).format("binaryFile").load(list(paths))
    contents = files.where(f"length <= {_MAX_BYTES}").select("path", "content")
    for path, fault in sorted(
        tuple(row) for row in contents.mapInArrow(_find_faults, "path string, fault string").collect()
    ):
        name = re.sub("^file:/+", "/", path)
        modes = "to read the rest nevertheless, set mode: PERMISSIVE, or DROPMALFORMED"
        raise RunError(f"'{name}' is not well-formed XML: {fault}; {modes}")


def _find_faults(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return the paths and faults of files that are not well-formed, in a Python worker."""
    import pyarrow as pa

    for batch in batches:
        found = [(path.as_py(), find_fault(content.as_buffer())) for path, content in zip(*batch.columns, strict=True)]
        faults = [(path, fault) for path, fault in found if fault]
        columns = [pa.array([each[number] for each in faults], pa.string()) for number in (0, 1)]
        yield pa.record_batch(columns, names=["path", "fault"])


def find_fault(content: Any) -> str | None:
    """Return the first fault of a file, which may be one of gzip, with its line; None for well-formed XML.

    Nothing outside of the file is read. What cannot be unpacked is left to Spark.
    """
    from lxml import etree  # pyright: ignore[reportAttributeAccessIssue]  (etree is compiled)

    parser = etree.XMLParser(target=_Nothing(), resolve_entities=False, no_network=True, load_dtd=False, huge_tree=True)
    try:
        for piece in _unpack(memoryview(content)):
            parser.feed(piece)
        parser.close()
    except etree.XMLSyntaxError as error:
        return str(error.msg)
    except zlib.error:
        return None
    return None


class _Nothing:
    """A target of the parser that keeps nothing of the document."""

    def close(self) -> None:
        pass


def _unpack(content: memoryview) -> Iterator[bytes]:
    decoder = zlib.decompressobj(zlib.MAX_WBITS | 16) if bytes(content[:2]) == _GZIP_START else None
    for start in range(0, len(content), _PIECE):
        piece = bytes(content[start : start + _PIECE])
        yield decoder.decompress(piece) if decoder else piece
