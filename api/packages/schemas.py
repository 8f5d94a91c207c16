"""Packages as JSON."""

from __future__ import annotations

from api.kit.schemas import Record
from core.integrations.declarations.records import Action
from core.integrations.declarations.service import Application


class ExportLink(Record):
    export_id: str
    """Id of the export."""
    url: str
    """Where the package can be downloaded for an hour, without a key."""


class UploadLink(Record):
    url: str
    """Where a package can be sent by PUT for an hour, without a key."""
    upload_id: str
    """Id of the upload, for the import."""


class Uploaded(Record):
    upload_id: str
    """Id of the upload."""
    sha256: str
    """Hash of the package."""
    size_bytes: int
    """Size of the package."""


class ImportedRecord(Record):
    kind: str
    """project, job, agent, category or extension."""
    name: str
    """Its name, after that of its parent."""


class Import(Record):
    """Rows that the import created and changed, the number of unchanged ones, and unresolved references as warnings."""

    import_id: str
    """Id of the import; a repeated import has the same one."""
    created: list[ImportedRecord]
    """Records that were created."""
    changed: list[ImportedRecord]
    """Records that were changed."""
    unchanged: int
    """Number of records that were the same already."""
    warnings: list[str]
    """References that were not found here, as sentences."""


def build_import(import_id: str, application: Application) -> Import:
    return Import(
        import_id=import_id,
        created=[ImportedRecord.model_validate(each) for each in application.changes if each.action is Action.CREATE],
        changed=[ImportedRecord.model_validate(each) for each in application.changes if each.action is Action.CHANGE],
        unchanged=application.unchanged,
        warnings=list(application.warnings),
    )
