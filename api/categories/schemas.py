"""Categories as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

from pydantic import Field

from api.kit.schemas import Body, Name, Record, example
from core.categories.repository import VISIBILITIES
from core.tables import Category

Visibility = Annotated[str, Field(json_schema_extra={"enum": [*VISIBILITIES]})]


class CategoryUpdate(Body):
    model_config = example({"name": "Shops", "description": "Agents that read shops", "visibility": "PUBLIC"})

    name: str | None = None
    description: str | None = None
    icon: str | None = None
    visibility: Visibility | None = None
    enabled: bool | None = None


class CategoryCreate(CategoryUpdate):
    name: Name  # pyright: ignore[reportIncompatibleVariableOverride,reportGeneralTypeIssues]


class CategoryRecord(Record):
    id: str
    name: str
    description: str | None
    icon: str | None
    visibility: str
    enabled: bool
    agent_ids: list[str]
    created_at: datetime
    updated_at: datetime


def category_record(category: Category, agent_ids: Sequence[str]) -> CategoryRecord:
    fields = {name: getattr(category, name) for name in CategoryRecord.model_fields if name != "agent_ids"}
    return CategoryRecord(**fields, agent_ids=list(agent_ids))
