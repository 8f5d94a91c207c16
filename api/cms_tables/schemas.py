"""Records of generic tables as JSON."""

from __future__ import annotations

from datetime import datetime

from pydantic import ConfigDict

from api.kit.schemas import Record


class DocumentRecord(Record):
    """The stored fields, after those that the server sets."""

    model_config = ConfigDict(**Record.model_config | {"extra": "allow"})

    id: str
    created_at: datetime
    updated_at: datetime


class RecordList(Record):
    """One page of a table; `total` counts the matching records of all pages."""

    data: list[DocumentRecord]
    page: int
    page_size: int
    total: int
