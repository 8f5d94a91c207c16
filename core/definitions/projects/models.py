"""The fields of a project that a request sets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import ValidationError, field_validator

from core.infra.changes import Changes, Name, example
from pipelines.models.options import ModelOptions

MODEL = "model"  # the parameter that is a language model rather than a value, where it is a map


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
    """Values of the jobs' parameters. A map `model` is the language model of pipelines that name none:
    {provider, name, maxCalls, maxTokens, maxCost, maxCallsPerHost, maxTokensPerHost, maxCostPerHost}.
    """

    @field_validator("parameters")
    @classmethod
    def _check_model(cls, parameters: dict[str, Any] | None) -> dict[str, Any] | None:
        read_model_options(parameters or {})
        return parameters


class ProjectCreate(ProjectUpdate):
    name: Name  # pyright: ignore[reportIncompatibleVariableOverride,reportGeneralTypeIssues]


def read_model_options(parameters: Mapping[str, object]) -> ModelOptions | None:
    """Return the language model among a project's parameters; raise ValueError when it is not valid."""
    value = parameters.get(MODEL)
    if not isinstance(value, dict):
        return None
    try:
        return ModelOptions.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, (MODEL, *first["loc"])))
        raise ValueError(f"{place}: {first['msg'].removeprefix('Value error, ')}") from error
