"""The fields of a schedule that a request sets, and the execute request that it may hold."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from difflib import get_close_matches
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from core.errors import BadInput, Detail
from core.infra.changes import Changes, example
from core.infra.validation import check_storable
from pipelines.language.names import describe_unknown

SAME_WORD = 0.88  # similarity of `limt` and limit, but not of jobParameters and parameters


class ScheduleUpdate(Changes):
    model_config = example({"cronSchedule": "30 6 * * MON-FRI", "timezone": "Europe/Berlin", "enabled": True})
    clearable: ClassVar[frozenset[str]] = frozenset({"job_id", "execution_request_json"})

    cron_schedule: str | None = None
    schedule: str | None = None
    """The same as `cronSchedule`, which takes precedence."""
    enabled: bool | None = None
    """Whether it fires; true when left out at first. The toggle in Dagster's UI is the same switch."""
    timezone: str | None = None
    job_id: str | None = None
    """The one job that is executed; an empty text means all enabled jobs of the project."""
    parameters: dict[str, Any] | None = None
    """Parameters of its executions, before those of the jobs and the project."""
    execution_request_json: str | None = None
    overlap: str | None = None
    missed: str | None = None

    @property
    def cron(self) -> str | None:
        """The cron expression, which is the project's own field."""
        return self.schedule if self.cron_schedule is None else self.cron_schedule

    def to_columns(self) -> dict[str, Any]:
        columns = super().to_columns()
        return {field: value for field, value in columns.items() if field not in ("cron_schedule", "schedule")}


class ScheduleCreate(ScheduleUpdate):
    """`name` and one of `cronSchedule` and `schedule` are required."""

    model_config = example({"name": "nightly", "cronSchedule": "0 2 * * *", "timezone": "Europe/Berlin"})

    name: str
    """Small letters, digits and single `_`. It stays."""


def find_misspelled_fields(names: Iterable[str], known: Collection[str], path: str = "") -> list[Detail]:
    """Return a problem for every unknown name that resembles a known field."""
    misspelled = [name for name in names if name not in known and get_close_matches(name, known, 1, SAME_WORD)]
    return [Detail(f"{path}{name}", describe_unknown("field", name, known), "unknown-field") for name in misspelled]


class ExecutionRequest(BaseModel):
    """The body of an execute request, as `executionRequestJson` holds it."""

    model_config = ConfigDict(alias_generator=to_camel, strict=True, frozen=True)

    parameters: dict[str, Any] | None = None
    arguments: list[str] | None = None
    cloud_credential_ids: list[str] | None = None
    cloud_credential_id: str | None = None
    limit: int | None = Field(default=None, ge=0)
    publish: bool | None = None

    @classmethod
    def from_json(cls, text: str | None, path: str = "executionRequestJson") -> ExecutionRequest:
        """Raise BadInput for text that is no execute body."""
        if not text:
            return cls()
        try:
            request = cls.model_validate(json.loads(text))
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, (path, *first["loc"])))
            raise BadInput(f"'{where}' is not what an execute body has: {first['msg']}.", path=where) from error
        except (ValueError, RecursionError) as error:
            raise BadInput(f"'{path}' is not the body of an execute request as JSON.", path=path) from error
        check_storable(path, request.model_dump())
        return request

    @classmethod
    def check(cls, text: str, path: str = "executionRequestJson") -> None:
        """Raise BadInput for text that is no execute body, or has a misspelled field."""
        cls.from_json(text, path)
        known = [to_camel(name) for name in cls.model_fields]
        if misspelled := find_misspelled_fields(json.loads(text), known, f"{path}."):
            raise BadInput(f"'{path}' has a field that is unknown here.", misspelled)

    @property
    def credential_ids(self) -> Sequence[str]:
        return self.cloud_credential_ids or ([self.cloud_credential_id] if self.cloud_credential_id else [])
