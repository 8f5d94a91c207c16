"""The fields of a project that a request sets."""

from __future__ import annotations

from typing import Any, ClassVar

from core.infra.changes import Changes, Name, example


class ProjectUpdate(Changes):
    model_config = example({"name": "Shop", "description": "Prices of one shop", "parameters": {"CITY": "Berlin"}})
    clearable: ClassVar[frozenset[str]] = frozenset({"cron_schedule"})

    name: str | None = None
    description: str | None = None
    cron_schedule: str | None = None
    enabled: bool | None = None
    """Whether its jobs may be executed; true when left out at the creation."""
    driver_reuse: bool | None = None
    """Whether its executions may share drivers with Spark, one after another; true when left out at the creation."""
    parameters: dict[str, Any] | None = None


class ProjectCreate(ProjectUpdate):
    name: Name  # pyright: ignore[reportIncompatibleVariableOverride,reportGeneralTypeIssues]
