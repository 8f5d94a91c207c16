"""Rows of generic tables as JSON: the API calls them records."""

from __future__ import annotations

from datetime import datetime

from pydantic import ConfigDict

from api.kit.schemas import Record


class DocumentRecord(Record):
    """The stored fields, after those that the server sets."""

    model_config = ConfigDict(**Record.model_config | {"extra": "allow"})

    id: str
    """Id of the record."""
    created_at: datetime
    updated_at: datetime


class RecordList(Record):
    """One page of a table; `total` counts the matching records of all pages."""

    data: list[DocumentRecord]
    """Records of this page."""
    page: int
    """Number of the page, from 0."""
    page_size: int
    """Largest number of records on a page."""
    total: int
    """Number of matching records on all pages."""
