"""Packages as JSON."""

from __future__ import annotations

from api.kit.schemas import Record
from core.packages.importing import Report


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


class TouchedRecord(Record):
    kind: str
    name: str


class Import(Record):
    """What the import made and changed, how much was as in the package already, and what it could not connect."""

    import_id: str
    created: list[TouchedRecord]
    changed: list[TouchedRecord]
    unchanged: int
    warnings: list[str]


def import_record(import_id: str, report: Report) -> Import:
    touched = {
        "created": [TouchedRecord.model_validate(each) for each in report.created],
        "changed": [TouchedRecord.model_validate(each) for each in report.changed],
    }
    return Import(import_id=import_id, unchanged=report.unchanged, warnings=report.warnings, **touched)
