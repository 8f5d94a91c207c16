"""Base of the classes that answers of the REST API have as they are, and the configuration of dataclasses for that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

if TYPE_CHECKING:
    from core.tables import Base

RECORD = ConfigDict(
    alias_generator=to_camel, populate_by_name=True, from_attributes=True,
    json_schema_serialization_defaults_required=True, use_attribute_docstrings=True,
)  # fmt: skip
"""Of a dataclass, as `__pydantic_config__`: camelCase in JSON, and every field is present."""


class Record(BaseModel):
    """Body of a response. Every field is present; one without a value is null."""

    model_config = RECORD | {"frozen": True}

    @classmethod
    def from_row(cls, row: Base, **computed: Any) -> Self:
        """Return the record of a stored row, with values for the fields that are not columns."""
        columns = {name: getattr(row, name) for name in cls.model_fields if name not in computed}
        return cls(**columns, **computed)
