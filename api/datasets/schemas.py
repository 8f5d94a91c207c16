"""Datasets as JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import Field

from api.kit.schemas import Record
from core.data.datasets.column_details import SourceColumnRecord, read_columns
from core.data.datasets.repository import DatasetWithVersion, get_address
from core.data.datasets.service import is_indexed
from core.data.datasets.version_files import Place
from core.data.datasets.versions import Lineage, LineageLink
from core.data.files.messages import ConvertedFile
from core.tables import Dataset, DatasetVersion
from pipelines.sql.type_names import convert_type


class ColumnRecord(Record):
    name: str
    """Name of the column."""
    type: str
    """Trino's SQL type. Decimals are JSON numbers with all their digits; infinities and NaN are text, times are
    ISO 8601 and binary is base64."""


class DescribedColumnRecord(ColumnRecord):
    description: str | None
    """What it means, as its pipeline says; null where nothing is said."""


class PlaceRecord(Record):
    """Where the files of a version are, as Spark and libraries for tables open them."""

    location: str | None
    """The folder that was written last, or the folder of a Delta or Iceberg table; null without a version."""
    locations: list[str]
    """All folders that have its rows: an append adds one, except to Delta and Iceberg tables."""
    metadata_location: str | None
    """The metadata file of an Iceberg table in this version; null for other formats."""


class DatasetRecord(PlaceRecord):
    id: str
    """Id of the dataset."""
    name: str
    description: str | None
    dataset_type: str
    """INPUT or OUTPUT; TRIAL for the rows that an execution keeps apart."""
    project_id: str | None
    """Id of its project; null for a dataset without one."""
    job_id: str | None
    """Id of the job that writes it; null for other datasets."""
    schema_: str = Field(alias="schema", description="The dataset's schema in SQL.")
    table_name: str
    """The dataset's table in SQL."""
    format: str
    """Format of its files, such as parquet."""
    source_format: str | None
    """Format of the file that was uploaded, such as csv; null where the rows were not uploaded."""
    storage_type: str
    """Kind of the storage: LOCAL or S3."""
    enabled: bool
    """true."""
    indexed: bool
    """Whether SQL can query it."""
    storage_path: str = Field(description="Address that every `load_*` stage accepts.")
    file_path: str
    """The same as `storagePath`."""
    version: int | None
    """Number of the current version; null before the first."""
    row_count: int | None
    size_bytes: int | None
    retained_versions: int | None
    """How many of the newest versions are kept; null for all."""
    retained_days: int | None
    """For how many days versions are kept; null for ever."""
    maintained_days: int | None
    """How many days the files of a table stay that no version needs; null for ever."""
    maintained_every: str | None
    """How often such files are removed, as an ISO 8601 duration."""
    maintained_at: datetime | None
    """When this was last done."""
    created_at: datetime
    updated_at: datetime


class DatasetDetails(DatasetRecord):
    columns: list[DescribedColumnRecord]
    """The columns of the current version in order; empty before the first."""


class Detected(Record):
    format: str
    """csv, jsonl or parquet."""
    compression: str | None
    """gzip, zip or null."""
    encoding: str | None
    """Encoding of text; null for Parquet."""
    delimiter: str | None
    """Of CSV, else null."""
    header: bool | None
    """Whether CSV begins with a header, else null."""


class UploadedDataset(DatasetRecord):
    columns: list[ColumnRecord]
    """The columns in order, with Trino's SQL types."""
    preview: list[dict[str, Any]]
    """The first rows."""
    detected: Detected
    """How the file was read."""
    warnings: list[str]
    """What the rows lost, and columns that differ from the version before."""


class VersionRecord(PlaceRecord):
    id: str
    """Id of the version."""
    version: int
    """Its number, from 1."""
    current: bool
    """Whether it is the one that queries read."""
    format: str
    """Format of its files."""
    row_count: int | None
    size_bytes: int | None
    execution_id: str | None
    """Id of the execution that wrote it; null for an upload and a restored version."""
    restored_from: int | None
    """Number of the earlier version whose rows it has again; null for versions with rows of their own."""
    created_at: datetime


class ColumnLineage(DescribedColumnRecord):
    sources: list[SourceColumnRecord]
    """What its values are made of; empty for constants, and in versions that were uploaded."""
    all: bool
    """Whether a stage may make it of all columns that it reads, such as a row function."""


class DatasetLineage(Record):
    written_by: list[LineageLink]
    """Jobs that wrote versions, and the newest upload."""
    read_by: list[LineageLink]
    """Jobs that read it, or have it as their input."""
    columns: list[ColumnLineage] | None
    """With `columns`: the columns of its current version, and what they are made of; else null."""


def build_dataset_details(found: DatasetWithVersion) -> DatasetDetails:
    columns = [DescribedColumnRecord.model_validate(each) for each in read_columns(found.version)]
    return DatasetDetails(**_get_dataset_fields(found), columns=columns)


def build_dataset_record(found: DatasetWithVersion) -> DatasetRecord:
    return DatasetRecord(**_get_dataset_fields(found))


def build_uploaded_record(found: DatasetWithVersion, converted: ConvertedFile) -> UploadedDataset:
    columns = [
        ColumnRecord(name=column["name"], type=convert_type(column["type"], "spark", "trino"))
        for column in converted.columns
    ]
    detected = Detected.model_validate(converted.detected)
    fields = _get_dataset_fields(found)
    return UploadedDataset(**fields, columns=columns, preview=[], detected=detected, warnings=list(converted.warnings))


def _get_dataset_fields(found: DatasetWithVersion) -> dict[str, Any]:
    dataset, version = found.dataset, found.version
    same = (
        *("id", "name", "description", "dataset_type", "project_id", "job_id", "format"),
        *("retained_versions", "retained_days", "created_at", "updated_at"),
        *("maintained_days", "maintained_every", "maintained_at"),
    )
    return {name: getattr(dataset, name) for name in same} | {
        "schema": dataset.schema_slug,
        "table_name": dataset.slug,
        "storage_type": found.storage_type,
        "source_format": version and version.source_format,
        "enabled": True,
        "indexed": is_indexed(version),
        "storage_path": get_address(dataset),
        "file_path": get_address(dataset),
        "version": version and version.number,
        "row_count": version and version.row_count,
        "size_bytes": version and version.size_bytes,
        **_get_place_fields(found.place),
    }


def _get_place_fields(place: Place) -> dict[str, Any]:
    return {name: getattr(place, name) for name in PlaceRecord.model_fields}


def build_version_record(dataset: Dataset, version: DatasetVersion, place: Place) -> VersionRecord:
    current = version.id == dataset.current_version_id
    return VersionRecord.from_row(version, version=version.number, current=current, **_get_place_fields(place))


def build_lineage_record(lineage: Lineage, columns: bool) -> DatasetLineage:
    return DatasetLineage(
        written_by=[*lineage.written_by],
        read_by=[*lineage.read_by],
        columns=[ColumnLineage.model_validate(each) for each in lineage.columns] if columns else None,
    )
