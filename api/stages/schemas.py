"""Stages as JSON, with the field names of the specification."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from pipelines.listing import StageListing


class StageRecord(BaseModel):
    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    stage_name: str
    """Name of the stage."""
    description: str
    """What it does."""
    plugin_type: str = Field(description="`core` for the engine's own stages, `plugin` for others.")
    plugin_id: str = Field(description="The package that brings the stage.")
    aliases: list[str]
    """Its other names."""
    arg_schema: dict[str, Any] = Field(
        description="JSON schema of the arguments by name; `positional` are those that may stand in a list, in order; "
        "`rest` is the last of them where it takes all further items."
    )
    usage_guide: str = Field(description="Markdown with an example.")


class StageCatalog(BaseModel):
    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    data: list[StageRecord]
    """All stages."""


def build_stage_record(stage: StageListing) -> StageRecord:
    return StageRecord(
        stage_name=stage.name,
        description=stage.description,
        plugin_type="plugin" if stage.is_from_plugin else "core",
        plugin_id=stage.plugin,
        aliases=list(stage.aliases),
        arg_schema=stage.arguments,
        usage_guide=stage.guide,
    )
