"""The fields of a pool that a request sets."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from core.infra.changes import WHOLE, Changes, example

PoolName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,63}$")]
PoolLimit = Annotated[int, Field(ge=1, le=10_000), WHOLE]


class PoolUpdate(Changes):
    model_config = example({"limit": 3})

    limit: PoolLimit | None = None
    """Most executions at once of the jobs that name it; more wait, and those that run already go on."""


class PoolCreate(PoolUpdate):
    model_config = example({"name": "shop-host", "limit": 2})

    name: PoolName
    """Letters, digits, `_`, `.` and `-`; jobs name it, so it stays as it is."""
    limit: PoolLimit  # pyright: ignore[reportIncompatibleVariableOverride,reportGeneralTypeIssues]
    """Most executions at once of the jobs that name it."""
