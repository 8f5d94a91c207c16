"""The fields of a build of the engine that a request sets."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from core.infra.changes import Changes, example


class LibraryVersionUpdate(Changes):
    model_config = example({"active": False, "description": "Replaced by build 8"})
    not_columns: ClassVar[frozenset[str]] = frozenset({"jar_path"})

    build_type: str | None = Field(default=None, min_length=1, max_length=100)
    """Kind of the build, such as development."""
    build_number: int | None = Field(default=None, ge=0, le=2**31 - 1)
    """Number of the build."""
    version: str | None = None
    """Version of the engine."""
    jar_path: str | None = None
    """The path that the upload of its file has answered."""
    active: bool | None = None
    """Whether projects and jobs may select it."""
    description: str | None = None


class LibraryVersionCreate(LibraryVersionUpdate):
    model_config = example({"buildType": "development", "buildNumber": 7, "version": "0.2.0"})

    build_type: str = Field(min_length=1, max_length=100)  # pyright: ignore[reportIncompatibleVariableOverride]
    """Kind of the build, such as development."""
    build_number: int = Field(ge=0, le=2**31 - 1)  # pyright: ignore[reportIncompatibleVariableOverride]
    """Number of the build."""
