"""Applied declarations as JSON."""

from __future__ import annotations

from pydantic import Field

from api.kit.schemas import Record
from core.integrations.declarations.records import AppliedChange
from core.integrations.declarations.service import Application


class AppliedChanges(Record):
    """The changes in the order in which they were made. A dry run has no warnings."""

    changes: list[AppliedChange] = Field(description="Created, changed and deleted records.")
    warnings: list[str] = Field(description="Problems that executions of the written agents would fail with.")


def build_applied_changes(application: Application) -> AppliedChanges:
    return AppliedChanges(
        changes=[*application.changes],
        warnings=list(application.warnings),
    )
