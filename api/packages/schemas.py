"""Packages as JSON."""

from __future__ import annotations

from api.kit.schemas import Record
from core.packages.import_ import ImportReport


class ExportLink(Record):
    export_id: str
    url: str


class UploadLink(Record):
    url: str
    upload_id: str


class Uploaded(Record):
    upload_id: str
    sha256: str
    size_bytes: int


class ImportedRecord(Record):
    kind: str
    name: str


class Import(Record):
    """Rows that the import created and changed, the number of unchanged ones, and unresolved references as warnings."""

    import_id: str
    created: list[ImportedRecord]
    changed: list[ImportedRecord]
    unchanged: int
    warnings: list[str]


def import_record(import_id: str, report: ImportReport) -> Import:
    touched = {
        "created": [ImportedRecord.model_validate(each) for each in report.created],
        "changed": [ImportedRecord.model_validate(each) for each in report.changed],
    }
    return Import(import_id=import_id, unchanged=report.unchanged, warnings=report.warnings, **touched)
