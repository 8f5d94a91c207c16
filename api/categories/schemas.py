"""Categories as JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field

from api.kit.schemas import Body, Record
from core.definitions.categories.repository import VISIBILITIES, CategoryWithAgents
from core.infra.changes import Name, example

Visibility = Annotated[str, Field(json_schema_extra={"enum": [*VISIBILITIES]})]


class CategoryUpdate(Body):
    model_config = example({"name": "Shops", "description": "Agents that read shops", "visibility": "PUBLIC"})

    name: str | None = None
    description: str | None = None
    icon: str | None = None
    visibility: Visibility | None = None
    enabled: bool | None = None
    """Informational; true when left out at the creation."""


class CategoryCreate(CategoryUpdate):
    name: Name  # pyright: ignore[reportIncompatibleVariableOverride,reportGeneralTypeIssues]


class CategoryRecord(Record):
    id: str
    """Id of the category."""
    name: str
    description: str | None
    icon: str | None
    visibility: str
    enabled: bool
    """Informational."""
    agent_ids: list[str]
    """Ids of its agents, oldest first."""
    created_at: datetime
    updated_at: datetime


def build_category_record(record: CategoryWithAgents) -> CategoryRecord:
    return CategoryRecord.from_row(record.category, agent_ids=list(record.agent_ids))
