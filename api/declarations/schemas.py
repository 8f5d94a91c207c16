"""Applied declarations as JSON."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from api.kit.schemas import Record
from core.integrations.declarations.records import Action
from core.integrations.declarations.service import Application


class ChangedField(Record):
    name: str = Field(description="The field, as a declaration has it.")
    before: Any = Field(description="The stored value; references are names.")
    after: Any = Field(description="The declared value.")


class AppliedChange(Record):
    action: Action = Field(description="What was done with the record.")
    kind: str = Field(description="category, agent, extension, project or job.")
    name: str = Field(description="Its name, after the names of the records that contain it: `Shop/Books`.")
    fields: list[ChangedField] = Field(description="The changed fields of an existing record.")


class AppliedChanges(Record):
    """The changes in the order in which they were made. A dry run has no warnings."""

    changes: list[AppliedChange] = Field(description="Created, changed and deleted records.")
    warnings: list[str] = Field(description="Problems that executions of the written agents would fail with.")


def build_applied_changes(application: Application) -> AppliedChanges:
    return AppliedChanges(
        changes=[AppliedChange.model_validate(each) for each in application.changes],
        warnings=list(application.warnings),
    )
