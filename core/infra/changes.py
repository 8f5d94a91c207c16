"""Base of the models that services take: the fields of a record that a request sets, as REST and files name them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Literal

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

from core.infra.validation import NAME_LENGTH, check_name, check_storable


def _require_text(value: object) -> object:
    """Refuse a bare number, also as text, though it could be read as seconds."""
    if isinstance(value, datetime) or (isinstance(value, str) and "-" in value[1:]):
        return value
    raise ValueError("a time is text in ISO 8601")


def _convert_to_utc(value: datetime) -> datetime:
    """Convert a time to UTC; one without a zone is UTC already."""
    try:
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    except OverflowError:
        raise ValueError("in UTC a time lies in the years 1 to 9999") from None


Time = Annotated[datetime, Strict(False), BeforeValidator(_require_text), AfterValidator(_convert_to_utc)]
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


def _convert_whole(value: object) -> object:
    """Convert 10.0 to 10: JSON has one kind of number."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _to_lower(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


WHOLE = BeforeValidator(_convert_whole)
LOWER = BeforeValidator(_to_lower)

# `Changes.to_columns` checks the length; this only describes it
Name = Annotated[str, Field(json_schema_extra={"minLength": 1, "maxLength": NAME_LENGTH})]


def example(fields: dict[str, Any]) -> ConfigDict:
    """A body as a client sends it, for the OpenAPI file; a test sends it too."""
    return ConfigDict(json_schema_extra={"examples": [fields]})


class Changes(BaseModel):
    """Fields of a record to set. A field that is None keeps its value; unknown fields are ignored.

    An empty text in a clearable field removes the stored value.
    """

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, strict=True, frozen=True, use_attribute_docstrings=True
    )
    clearable: ClassVar[frozenset[str]] = frozenset()  # optional ids, times and schedules
    not_columns: ClassVar[frozenset[str]] = frozenset()  # fields that the repository handles itself

    def to_columns(self) -> dict[str, Any]:
        """Return the values to set, under the names of the fields; raise BadInput for one that cannot be stored."""
        names = (name for name in type(self).model_fields if name not in self.not_columns)
        known = {name: value for name in names if (value := getattr(self, name)) is not None}
        if isinstance(name := known.get("name"), str):
            check_name(name)
        for field, value in known.items():
            check_storable(to_camel(field), value)
        return {field: None if field in self.clearable and value == "" else value for field, value in known.items()}
