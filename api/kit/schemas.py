"""How JSON looks: camelCase, unknown fields ignored, a known field of the wrong type refused."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Any

from fastapi import Path, Response
from pydantic import BaseModel, BeforeValidator, ConfigDict
from pydantic.alias_generators import to_camel

from core.infra.records import Record

ProjectId = Annotated[str, Path(alias="projectId", description="Id of the project.")]
CategoryId = Annotated[str, Path(alias="categoryId", description="Id of the category.")]
AgentId = Annotated[str, Path(alias="agentId", description="Id of the agent.")]
JobId = Annotated[str, Path(alias="jobId", description="Id of the job.")]
TaskId = Annotated[str, Path(alias="taskId", description="Id of the task, an integer.")]
ExecutionId = Annotated[str, Path(alias="executionId", description="Id of the execution.")]
DatasetId = Annotated[str, Path(alias="datasetId", description="Id of the dataset.")]
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]")


def _check_is_time(value: object) -> object:
    if isinstance(value, str) and not _TIME.match(value):  # pydantic takes numbers, which could be seconds or hours
        raise ValueError("should be a time such as 2026-01-31T08:00:00Z")
    return value


QueryTime = Annotated[datetime, BeforeValidator(_check_is_time)]


class Body(BaseModel):
    """Body of a request. A field that is null counts as omitted."""

    model_config = ConfigDict(alias_generator=to_camel, strict=True, frozen=True, use_attribute_docstrings=True)

    def values(self) -> dict[str, Any]:
        """Return the fields that have a value, by their names in Python."""
        return self.model_dump(exclude_none=True)


class Nothing(BaseModel):
    """An empty object."""


def send_with_rows(record: Record, field: str, rows: bytes) -> Response:
    """Answer with a record whose `field` has these rows: they are JSON already, and are not read again."""
    facts = record.model_dump_json(by_alias=True, exclude={field}).encode()
    separator = b"" if facts == b"{}" else b","
    text = b'%s%s"%s":%s}' % (facts[:-1], separator, field.encode(), rows)
    return Response(text, media_type="application/json")
