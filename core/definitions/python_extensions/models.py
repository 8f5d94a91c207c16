"""The fields of a Python extension that a request sets."""

from __future__ import annotations

from typing import Annotated, Any, cast

from pydantic import AliasChoices, Field, model_validator

from core.infra.changes import Changes, example

EXAMPLE = "def shout(row, *, mark='!'):\n    return {'title': row['title'].upper() + mark}\n"
SOURCE_NAMES = AliasChoices("function", "code", "source")
SOURCE_DESCRIPTION = "The function's text, of at most 64 KiB. Also understood as `code` or `source`."
ExtensionName = Annotated[
    str | None, Field(description="What the agent's pipeline calls it by: `python_row_transform:<name>`.")
]
ExtensionType = Annotated[
    str | None,
    Field(
        validation_alias=AliasChoices("extensionType", "type"),
        description="`row_transform`, in any spelling. Also understood as `type`.",
    ),
]


class AliasedChanges(Changes):
    """Of a field with several names, one that is null counts as left out."""

    @model_validator(mode="before")
    @classmethod
    def _remove_nulls(cls, given: object) -> object:
        if not isinstance(given, dict):
            return given
        return {name: value for name, value in cast(dict[str, Any], given).items() if value is not None}


class ExtensionUpdate(AliasedChanges):
    model_config = example({"name": "shout", "extensionType": "row_transform", "function": EXAMPLE})

    name: ExtensionName = None
    type: ExtensionType = None
    source: str | None = Field(default=None, validation_alias=SOURCE_NAMES, description=SOURCE_DESCRIPTION)


class ExtensionCreate(ExtensionUpdate):
    """`name` left out is that of the only function in the text."""

    source: str = Field(  # pyright: ignore[reportIncompatibleVariableOverride,reportGeneralTypeIssues]
        validation_alias=SOURCE_NAMES, description=SOURCE_DESCRIPTION
    )


class ExtensionRegistration(ExtensionCreate):
    """`name` left out is that of the only function in the text."""

    model_config = example(
        {"agentId": "01a1fe8d-908f-7f00-a12a-dce377429a92", "name": "shout", "function": EXAMPLE.replace("!", "?")}
    )

    agent_id: str = Field(description="The agent whose pipeline calls it.")
