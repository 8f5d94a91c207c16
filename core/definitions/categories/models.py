"""The fields of a category that a request sets."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from core.errors import BadInput
from core.infra.changes import Changes, Name, example

VISIBILITIES = ("PUBLIC", "PRIVATE")
Visibility = Annotated[str, Field(json_schema_extra={"enum": [*VISIBILITIES]})]


class CategoryUpdate(Changes):
    model_config = example({"name": "Shops", "description": "Agents that read shops", "visibility": "PUBLIC"})

    name: str | None = None
    description: str | None = None
    icon: str | None = None
    visibility: Visibility | None = None
    enabled: bool | None = None
    """Stored and shown; it switches nothing. True when left out at the creation."""

    def to_columns(self) -> dict[str, Any]:
        columns = super().to_columns()
        if self.visibility is not None:
            columns["visibility"] = self.visibility.upper()
            if columns["visibility"] not in VISIBILITIES:
                raise BadInput("'visibility' is PUBLIC or PRIVATE.", path="visibility")
        return columns


class CategoryCreate(CategoryUpdate):
    name: Name  # pyright: ignore[reportIncompatibleVariableOverride,reportGeneralTypeIssues]
