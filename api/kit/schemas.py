"""How JSON looks: camelCase, unknown fields ignored, a known field of the wrong type refused."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Literal, Self

from fastapi import Path
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Strict,
    TypeAdapter,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from core.infra.validation import NAME_LENGTH
from core.tables import Base


def _text(value: object) -> object:
    """A bare number is no time, as text neither, though it could be read as seconds."""
    if isinstance(value, datetime) or (isinstance(value, str) and "-" in value[1:]):
        return value
    raise ValueError("a time is text in ISO 8601")


def _utc(value: datetime) -> datetime:
    """A time without a zone is UTC."""
    try:
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    except OverflowError:
        raise ValueError("in UTC a time lies in the years 1 to 9999") from None


Time = Annotated[datetime, Strict(False), BeforeValidator(_text), AfterValidator(_utc)]
_TIME = TypeAdapter[datetime](Time)


def _parse_clearable_time(value: object, _handler: ValidatorFunctionWrapHandler) -> datetime | str:
    """Parse a time, or keep an empty text; a union's own errors would name its members in the path."""
    if value == "":
        return ""
    try:
        return _TIME.validate_python(value)
    except ValidationError as error:
        raise PydanticCustomError("invalid_time", "{reason}", {"reason": error.errors()[0]["msg"]}) from error


ClearableTime = Annotated[datetime | Literal[""], WrapValidator(_parse_clearable_time)]


def _whole(value: object) -> object:
    """JSON knows one kind of number: 10.0 is the integer 10."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _to_lower(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


WHOLE = BeforeValidator(_whole)
LOWER = BeforeValidator(_to_lower)

# core has the rule and the sentence; here it is only told
Name = Annotated[str, Field(json_schema_extra={"minLength": 1, "maxLength": NAME_LENGTH})]

ProjectId = Annotated[str, Path(alias="projectId", description="Id of the project.")]
CategoryId = Annotated[str, Path(alias="categoryId", description="Id of the category.")]
AgentId = Annotated[str, Path(alias="agentId", description="Id of the agent.")]
JobId = Annotated[str, Path(alias="jobId", description="Id of the job.")]
TaskId = Annotated[str, Path(alias="taskId", description="Id of the task, an integer.")]
ExecutionId = Annotated[str, Path(alias="executionId", description="Id of the execution.")]
DatasetId = Annotated[str, Path(alias="datasetId", description="Id of the dataset.")]


def example(fields: dict[str, Any]) -> ConfigDict:
    """A body as a client sends it, for the OpenAPI file; a test sends it too."""
    return ConfigDict(json_schema_extra={"examples": [fields]})


class Body(BaseModel):
    """What a request carries. A field that is null counts as left out."""

    model_config = ConfigDict(alias_generator=to_camel, strict=True, frozen=True, use_attribute_docstrings=True)

    def values(self) -> dict[str, Any]:
        """The fields that have a value, under core's names."""
        return self.model_dump(exclude_none=True)


class Record(BaseModel):
    """Body of a response: every field is present, null when it has no value."""

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
