"""Snapshots of tables as texts, which versions of datasets have.

That of a Delta table is its version (`12`), that of an Iceberg table its metadata file and the id of the snapshot that
is current in it (`v12.metadata.json#8823455123`).
"""

from __future__ import annotations

import re
from typing import NamedTuple

LOG_FOLDERS = {"delta": "_delta_log", "iceberg": "metadata"}
_ICEBERG = re.compile(r"(v?(\d+)[\w.-]*\.metadata\.json)#(-?\d+)")


class IcebergSnapshot(NamedTuple):
    """A metadata file, which is in the folder `metadata` of the table, and the id of the snapshot."""

    file: str
    id: str
    number: int

    def __str__(self) -> str:
        return f"{self.file}#{self.id}"

    def get_address(self, location: str) -> str:
        """Return the address of the metadata file of the table in a folder."""
        return f"{location.rstrip('/')}/{LOG_FOLDERS['iceberg']}/{self.file}"


def parse_iceberg_snapshot(text: str) -> IcebergSnapshot:
    """Raise ValueError for a text of another form."""
    match = _ICEBERG.fullmatch(text)
    if match is None:
        raise ValueError(f"'{text}' is no snapshot of an Iceberg table")
    return IcebergSnapshot(match[1], match[3], int(match[2]))


def name_iceberg_snapshot(metadata: str, id_: int) -> str:
    """Return the text of a snapshot by the address of its metadata file."""
    return f"{metadata.rpartition('/')[2]}#{id_}"


def get_position(format_: str, snapshot: str) -> int:
    """Return the place of a snapshot in the order of its table's log."""
    return int(snapshot) if format_ == "delta" else parse_iceberg_snapshot(snapshot).number


def get_version_option(format_: str, snapshot: str) -> str:
    """Return the value of the option `versionAsOf` of Spark's reader."""
    return snapshot if format_ == "delta" else parse_iceberg_snapshot(snapshot).id
