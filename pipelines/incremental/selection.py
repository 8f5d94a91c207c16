"""The rows that an incremental execution writes, and the known pages of its job afterwards."""

from __future__ import annotations

import json
import time
from collections.abc import Container, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import pyarrow as pa
import pyarrow.compute
import xxhash

from pipelines.coordination.seen_pages import DIGEST_BYTES, PAGE
from pipelines.incremental.known_pages import SCHEMA, KnownPages, digest_address
from pipelines.incremental.options import PageOutcome
from pipelines.language.columns import ENGINE_COLUMNS
from pipelines.language.json_values import to_json

PAGE_COLUMN, LOW, HIGH = "__page", "__low", "__high"  # of a row: its page, and the halves of a hash of its values
DIGESTS = pa.schema([(PAGE_COLUMN, pa.binary()), (LOW, pa.int64()), (HIGH, pa.int64())])
SUMS = (PAGE_COLUMN, LOW, HIGH, "count")  # of the rows of a page
_ADDRESS = "_requestedUrl"
_HALF = 0xFFFFFFFF
pc: Any = pyarrow.compute  # its functions are made when it is imported


@dataclass(frozen=True, slots=True)
class PageCounts:
    """Numbers of pages: with first rows, with changed rows, requested but unchanged, left out, and no longer there."""

    new: int = 0
    changed: int = 0
    unchanged: int = 0
    left_out: int = 0
    gone: int = 0

    def __str__(self) -> str:
        return (
            f"{self.new:,} new pages, {self.changed:,} changed, {self.unchanged:,} unchanged, "
            f"{self.left_out:,} left out, {self.gone:,} gone"
        )


@dataclass(frozen=True, slots=True)
class PageSelection:
    """Digests of the pages whose rows are not written, and the known pages afterwards, None if they are the same."""

    dropped: pa.Array
    known: pa.Table | None
    counts: PageCounts


def digest_rows(rows: pa.RecordBatch, columns: Sequence[str], job: str) -> pa.RecordBatch:
    """Return the digests of every row: of the address of its page, or else of its values, and a hash of its values.

    The engine's columns are no part of the values.
    """
    own = [name for name in columns if name not in ENGINE_COLUMNS and name in rows.schema.names]
    values = zip(*(rows.column(name).to_pylist() for name in own), strict=True) if own else iter([()] * rows.num_rows)
    texts = [json.dumps([to_json(value, None) for value in row], ensure_ascii=False).encode() for row in values]
    addresses = rows.column(_ADDRESS).to_pylist()
    pages = [
        digest_address(address, job) if address is not None else _digest_values(text, job)
        for address, text in zip(addresses, texts, strict=True)
    ]
    hashes = [*map(xxhash.xxh3_64_intdigest, texts)]
    halves = ([each & _HALF for each in hashes], [each >> 32 for each in hashes])
    return pa.RecordBatch.from_arrays([pa.array(each) for each in (pages, *halves)], schema=DIGESTS)


def group_digests(rows: pa.Table) -> pa.Table:
    """Return the sums of the digests of rows by page, in which the order of rows does not matter."""
    grouped = rows.group_by(PAGE_COLUMN).aggregate([(LOW, "sum"), (HIGH, "sum"), (LOW, "count")])
    return pa.table([grouped.column(each) for each in (PAGE_COLUMN, f"{LOW}_sum", f"{HIGH}_sum", f"{LOW}_count")], SUMS)


def select_pages(
    found: pa.Table, seen: pa.Table, known: KnownPages, *, has_keys: bool, left_out: int = 0
) -> PageSelection:
    """Choose the pages whose rows are written.

    `found` has the sums of `group_digests`, `seen` the pages that tasks have requested. Without keys the rows of a
    known page are not written, with keys those that are the same as before.
    """
    pages = pa.table(
        {
            "page": found.column(PAGE_COLUMN).cast(PAGE),
            "rows": pa.array(map(_combine, *(found.column(name).to_pylist() for name in SUMS[1:])), pa.int64()),
        }
    )
    earlier = known.table.select(["page", "rows"]).rename_columns(["page", "earlier"])
    joined = pages.join(earlier.append_column("known", pa.repeat(True, len(earlier))), "page", join_type="left outer")
    is_known = pc.fill_null(joined.column("known"), False)
    is_same = pc.fill_null(pc.equal(joined.column("rows"), joined.column("earlier")), False)
    is_dropped = pc.and_(is_known, is_same) if has_keys else is_known
    dropped = joined.filter(is_dropped).column("page").combine_chunks()
    written = joined.filter(pc.invert(is_dropped))
    outcomes = pc.value_counts(seen.column("outcome")).to_pylist()
    asked = {each["values"]: each["counts"] for each in outcomes}
    new = pc.sum(pc.invert(pc.fill_null(written.column("known"), False))).as_py() or 0
    without_rows = _count_without_rows(seen, pages, known) if has_keys else 0
    counts = PageCounts(
        new,
        len(written) - new,
        asked.get(PageOutcome.UNCHANGED, 0) + (len(dropped) + without_rows if has_keys else 0),
        left_out + (0 if has_keys else len(dropped)),
        asked.get(PageOutcome.GONE, 0),
    )
    updates = joined.select(["page", "rows"]) if has_keys else written.select(["page", "rows"])
    return PageSelection(dropped, _update(known.table, updates, seen if has_keys else seen.slice(0, 0)), counts)


def _count_without_rows(seen: pa.Table, pages: pa.Table, known: KnownPages) -> int:
    """Return how many known pages were fetched and gave no rows, so that their earlier ones stay."""
    fetched = seen.filter(pc.equal(seen.column("outcome"), PageOutcome.FETCHED)).select(["page"])
    empty = fetched.join(pages.select(["page"]), "page", join_type="left anti")
    return empty.join(known.table.select(["page"]), "page", join_type="left semi").num_rows


def _update(known: pa.Table, updates: pa.Table, seen: pa.Table) -> pa.Table | None:
    """Return the known pages with updates, and with the times at which others were requested; None for no change."""
    now = int(time.time() * 1_000_000)
    details = seen.select(["page", "checked", "etag", "last_modified"])
    fetched = updates.join(details, "page", join_type="left outer")
    checked = pc.fill_null(fetched.column("checked"), now)
    fetched = fetched.set_column(fetched.column_names.index("checked"), "checked", checked).select(SCHEMA.names)
    others = seen.select(["page", "checked"]).rename_columns(["page", "asked"])
    others = others.join(updates.select(["page"]), "page", join_type="left anti")
    asked = known.join(others, "page", join_type="inner")
    asked = asked.set_column(asked.column_names.index("checked"), "checked", asked.column("asked")).select(SCHEMA.names)
    changed = pa.concat_tables([fetched, asked])
    if not changed.num_rows:
        return None
    kept = known.join(changed.select(["page"]), "page", join_type="left anti").select(SCHEMA.names)
    return pa.concat_tables([kept.cast(SCHEMA), changed.cast(SCHEMA)])


def _combine(low: int, high: int, count: int) -> int:
    """Return one signed number of 64 bits for the sums of a page."""
    number = xxhash.xxh3_64_intdigest(f"{low} {high} {count}".encode())
    return number - (1 << 64) if number >= 1 << 63 else number


def _digest_values(text: bytes, job: str) -> bytes:
    return blake2b(b"row\n" + text, digest_size=DIGEST_BYTES, key=job.encode()[:64]).digest()


def drop_pages(rows: pa.Table, dropped: pa.Array) -> pa.Table:
    """Return the rows without those of dropped pages."""
    if not len(dropped):
        return rows
    unwanted = set(dropped.to_pylist())
    return rows.filter(pa.array([page not in unwanted for page in rows.column(PAGE_COLUMN).to_pylist()], pa.bool_()))


def filter_pages(found: pa.Table, kept: Container[bytes]) -> pa.Table:
    """Return the sums of these pages."""
    return found.filter(pa.array([page in kept for page in found.column(PAGE_COLUMN).to_pylist()], pa.bool_()))
