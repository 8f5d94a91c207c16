"""Categories as JSON."""

from __future__ import annotations

from datetime import datetime

from api.kit.schemas import Record
from core.definitions.categories.repository import CategoryWithAgents


class CategoryRecord(Record):
    id: str
    """Id of the category."""
    name: str
    description: str | None
    icon: str | None
    visibility: str
    enabled: bool
    """Stored and shown; it switches nothing."""
    agent_ids: list[str]
    """Ids of its agents, oldest first."""
    created_at: datetime
    updated_at: datetime


def build_category_record(record: CategoryWithAgents) -> CategoryRecord:
    return CategoryRecord.from_row(record.category, agent_ids=list(record.agent_ids))
