"""The fields of a task that a request sets."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field

from core.errors import BadInput
from core.infra.changes import Changes, ClearableTime, Name, example

TYPES = ("SPARK", "BROWSER", "PYTHON")


class TaskUpdate(Changes):
    model_config = example({"name": "Titles by hand", "taskType": "SPARK"})
    clearable: ClassVar[frozenset[str]] = frozenset({"bot_id", "scheduled_time"})

    name: str | None = None
    description: str | None = None
    bot_id: str | None = None
    task_type: str | None = None
    execution_mode: str | None = None
    execution_log: str | None = None
    """Text shown until the first execution, whose log takes its place."""
    scheduled_time: ClearableTime | None = None
    enabled: bool | None = None
    """Whether it may be started; true when left out at the creation."""
    api_key: str | None = Field(default=None, description="Write-only: reads return asterisks.")

    def to_columns(self) -> dict[str, Any]:
        """Return the values to set, without the API key, which is stored encrypted."""
        columns = super().to_columns()
        columns.pop("api_key", None)
        if self.task_type is not None:
            columns["task_type"] = self.task_type.upper()
            if columns["task_type"] not in TYPES:
                raise BadInput(f"'taskType' is one of {', '.join(TYPES)}.", path="taskType")
        return columns


class TaskCreate(TaskUpdate):
    name: Name  # pyright: ignore[reportIncompatibleVariableOverride,reportGeneralTypeIssues]
