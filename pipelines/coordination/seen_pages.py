"""The pages that the tasks of an execution have fetched or revalidated, collected by its driver."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

import pyarrow as pa

from pipelines.coordination.messages import SeenPage

DIGEST_BYTES = 16  # of a page's address
PAGE = pa.binary(DIGEST_BYTES)
SCHEMA = pa.schema(
    [
        ("page", PAGE),
        ("outcome", pa.int8()),
        ("checked", pa.int64()),
        ("etag", pa.string()),
        ("last_modified", pa.string()),
    ]
)
_BATCH = 8192


class SeenPages:
    """Pages by digest, outcome, time and validators; 65 bytes a page, without Python objects."""

    def __init__(self) -> None:
        self._batches: list[pa.RecordBatch] = []
        self._latest: list[SeenPage] = []

    def add(self, pages: Iterable[SeenPage]) -> None:
        self._latest += pages
        if len(self._latest) >= _BATCH:
            self._pack()

    def build_table(self) -> pa.Table:
        """Return one row a page, of its latest request."""
        self._pack()
        table = pa.Table.from_batches(self._batches, SCHEMA)
        numbered = table.append_column("number", pa.array(range(table.num_rows), pa.int64()))
        newest = numbered.group_by("page").aggregate([("number", "max")]).column("number_max")
        return table.take(newest.combine_chunks()) if table.num_rows else table

    def list_pages(self) -> list[SeenPage]:
        """Return all pages as a report has them."""
        self._pack()
        columns = ([*zip(*(column.to_pylist() for column in batch.columns), strict=True)] for batch in self._batches)
        return [*chain.from_iterable(columns)]

    def _pack(self) -> None:
        if self._latest:
            columns = [*map(list, zip(*self._latest, strict=True))]
            arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
            self._batches.append(pa.RecordBatch.from_arrays(arrays, schema=SCHEMA))
            self._latest = []
