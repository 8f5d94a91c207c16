"""Snapshots of tables as texts, which versions of datasets have.

That of a Delta table is its version (`12`), that of an Iceberg table its metadata file and the id of the snapshot that
is current in it (`v12.metadata.json#8823455123`).
"""

from __future__ import annotations

import re
from typing import NamedTuple

_ICEBERG = re.compile(r"(v?(\d+)[\w.-]*\.metadata\.json)#(-?\d+)")


class IcebergSnapshot(NamedTuple):
    """A metadata file, which is in the folder `metadata` of the table, and the id of the snapshot."""

    file: str
    id: str

    def __str__(self) -> str:
        return f"{self.file}#{self.id}"


def parse_iceberg_snapshot(text: str) -> IcebergSnapshot:
    """Raise ValueError for a text of another form."""
    match = _ICEBERG.fullmatch(text)
    if match is None:
        raise ValueError(f"'{text}' is no snapshot of an Iceberg table")
    return IcebergSnapshot(match[1], match[3])


def get_position(format_: str, snapshot: str) -> int:
    """Return the place of a snapshot in the order of its table's log."""
    if format_ == "delta":
        return int(snapshot)
    match = _ICEBERG.fullmatch(snapshot)
    if match is None:
        raise ValueError(f"'{snapshot}' is no snapshot of an Iceberg table")
    return int(match[2])
