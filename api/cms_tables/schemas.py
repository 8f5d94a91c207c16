"""Records of generic tables as JSON."""

from __future__ import annotations

from datetime import datetime

from pydantic import ConfigDict

from api.kit.schemas import Record


class StoredRecord(Record):
    """The fields that were stored, beside those that the server owns."""

    model_config = ConfigDict(**Record.model_config | {"extra": "allow"})

    id: str
    created_at: datetime
    updated_at: datetime


class RecordList(Record):
    """One page of a table; `total` counts the matching records of all pages."""

    data: list[StoredRecord]
    page: int
    page_size: int
    total: int
