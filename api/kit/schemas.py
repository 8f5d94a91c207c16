"""How JSON looks: camelCase, unknown fields ignored, a known field of the wrong type refused."""

from __future__ import annotations

from typing import Annotated, Any, Self

from fastapi import Path, Response
from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from core.tables import Base

ProjectId = Annotated[str, Path(alias="projectId", description="Id of the project.")]
CategoryId = Annotated[str, Path(alias="categoryId", description="Id of the category.")]
AgentId = Annotated[str, Path(alias="agentId", description="Id of the agent.")]
JobId = Annotated[str, Path(alias="jobId", description="Id of the job.")]
TaskId = Annotated[str, Path(alias="taskId", description="Id of the task, an integer.")]
ExecutionId = Annotated[str, Path(alias="executionId", description="Id of the execution.")]
DatasetId = Annotated[str, Path(alias="datasetId", description="Id of the dataset.")]


class Body(BaseModel):
    """Body of a request. A field that is null counts as omitted."""

    model_config = ConfigDict(alias_generator=to_camel, strict=True, frozen=True, use_attribute_docstrings=True)

    def values(self) -> dict[str, Any]:
        """Return the fields that have a value, by their names in Python."""
        return self.model_dump(exclude_none=True)


class Record(BaseModel):
    """Body of a response. Every field is present; one without a value is null."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, from_attributes=True, frozen=True,
        json_schema_serialization_defaults_required=True, use_attribute_docstrings=True,
    )  # fmt: skip

    @classmethod
    def from_row(cls, row: Base, **computed: Any) -> Self:
        """Return the record of a stored row, with values for the fields that are not columns."""
        columns = {name: getattr(row, name) for name in cls.model_fields if name not in computed}
        return cls(**columns, **computed)


class Nothing(BaseModel):
    """An empty object."""


def send_with_rows(record: Record, field: str, rows: bytes) -> Response:
    """Answer with a record whose `field` has these rows: they are JSON already, and are not read again."""
    facts = record.model_dump_json(by_alias=True, exclude={field}).encode()
    separator = b"" if facts == b"{}" else b","
    text = b'%s%s"%s":%s}' % (facts[:-1], separator, field.encode(), rows)
    return Response(text, media_type="application/json")
