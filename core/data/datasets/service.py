"""Operations on datasets: create, change and delete; uploads, downloads, history and retention."""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import BinaryIO

from sqlalchemy import update
from sqlalchemy.orm import Session

from core.data.datasets.maintenance import MaintenanceRecord, maintain_dataset
from core.data.datasets.missing_files import MISSING_FILES, report_missing
from core.data.datasets.models import MAX_RETAINED, DatasetCreate, DatasetUpdate, MaintenanceRequest, Retention
from core.data.datasets.repository import (
    DatasetFilter,
    DatasetRepository,
    DatasetWithVersion,
    NewVersion,
    check_own_table,
)
from core.data.datasets.storage_limit import check_storage
from core.data.datasets.version_files import Place, get_folder_columns, list_version_files, locate_version
from core.data.datasets.versions import (
    Lineage,
    apply_retention,
    check_not_written,
    get_version,
    list_versions,
    load_lineage,
    remove_versions,
)
from core.data.files.messages import ConversionRequest, ConvertedFile, Format
from core.data.files.process import FileReader
from core.definitions.identity.api_keys import Identity
from core.definitions.identity.limits import load_limits
from core.errors import BadInput, Conflict, Unavailable
from core.infra.checks import Check
from core.infra.database import Database
from core.infra.preconditions import Versioned, compute_etag
from core.infra.repository import lock_organization
from core.infra.settings import Settings
from core.infra.storage import get_storage_type
from core.infra.storage.protocol import NotStored, Storage, version_key
from core.tables import Dataset, DatasetVersion, Job, new_id, now
from pipelines.language.formats import PARQUET_FORMATS
from pipelines.sql.type_names import convert_type

FORMATS: Mapping[str, Format] = {"csv": "csv", "jsonl": "jsonl", "json": "jsonl", "parquet": "parquet"}
UPLOADED_FILE = "part-00000.parquet"
CHECK_SECONDS = 5


@dataclass(frozen=True, slots=True)
class UploadOptions:
    """The fields that a client sends with an upload; None is detected or has a default."""

    name: str
    dataset_type: str | None = None
    description: str | None = None
    project_id: str | None = None
    dataset_id: str | None = None
    format: str | None = None
    delimiter: str | None = None
    header: bool | None = None
    encoding: str | None = None
    table_name: str | None = None
    allow_type_changes: bool = False

    def to_dataset(self) -> DatasetCreate:
        return DatasetCreate(
            name=self.name,
            description=self.description,
            dataset_type=self.dataset_type or "INPUT",
            project_id=self.project_id,
            table_name=self.table_name,
        )


@dataclass(frozen=True, slots=True)
class Download:
    """Rows in a format: a stored file that is sent as it is, or chunks that are produced while they are sent.

    `tag` names the content of a file, which never changes.
    """

    name: str
    content: BinaryIO | Generator[bytes]
    tag: str = ""


class DatasetService:
    """Every method works on the datasets of the caller's organization; others are unknown to it (NotFound)."""

    def __init__(self, settings: Settings, storage: Storage, files: FileReader) -> None:
        self._settings = settings
        self._storage = storage
        self._files = files
        self._storage_check = Check("storage", storage.check, "storage-unavailable")

    def list(
        self,
        session: Session,
        caller: Identity,
        *,
        limit: int | None = None,
        after: str | None = None,
        where: DatasetFilter | None = None,
    ) -> Sequence[DatasetWithVersion]:
        if where and where.storage_type and where.storage_type.upper() != get_storage_type(self._settings.storage):
            return []
        found = DatasetRepository(session, caller.organization_id).list(limit=limit, after=after, where=where)
        return [self._add_place(each) for each in found]

    def get(self, session: Session, caller: Identity, dataset_id: str) -> Versioned[DatasetWithVersion]:
        return self._load(DatasetRepository(session, caller.organization_id), dataset_id)

    def create(self, session: Session, caller: Identity, new: DatasetCreate) -> Versioned[DatasetWithVersion]:
        """Create a dataset without rows; a path that has a dataset already means that one."""
        datasets = DatasetRepository(session, caller.organization_id)
        return self._load(datasets, datasets.create(new).id)

    def update(
        self, session: Session, caller: Identity, dataset_id: str, changes: DatasetUpdate, if_match: Collection[str]
    ) -> Versioned[DatasetWithVersion]:
        datasets = DatasetRepository(session, caller.organization_id)
        datasets.lock(datasets.get(dataset_id), if_match)
        return self._load(datasets, datasets.update(dataset_id, changes).id)

    def delete(
        self, session: Session, caller: Identity, dataset_id: str, files: bool, if_match: Collection[str]
    ) -> None:
        """Delete a dataset and its history; with `files`, its files too, once nobody can be reading them.

        Raises Conflict while a job has it as its input.
        """
        datasets = DatasetRepository(session, caller.organization_id)
        dataset = datasets.lock(datasets.get(dataset_id), if_match)
        jobs = datasets.find_jobs_reading(dataset)
        if jobs:
            sentence = f"The job '{jobs[0].name}' has this dataset as its input. Give it another one first."
            raise Conflict(sentence, code="dataset-in-use")
        session.execute(
            update(Job).where(Job.output_dataset_id == dataset.id).values(output_dataset_id=None),
            execution_options={"synchronize_session": False},
        )
        versions = list_versions(session, dataset)
        session.delete(dataset)
        session.flush()
        due_at = now() + self.removal_delay if files else None
        remove_versions(session, caller.organization_id, versions, due_at)

    def check_upload(self, database: Database, caller: Identity, options: UploadOptions) -> None:
        """Raise BadInput or NotFound for options that an upload cannot have, Conflict without room for more."""
        if options.format is not None and options.format not in FORMATS:
            raise BadInput("'format' is csv, jsonl or parquet.", path="format")
        if options.delimiter is not None and (len(options.delimiter) != 1 or not 9 <= ord(options.delimiter) < 127):
            raise BadInput("'delimiter' is one ASCII character.", path="delimiter")
        with database.read() as session:
            self._check_storage(session, caller)
            DatasetRepository(session, caller.organization_id).check(options.to_dataset())
            if options.dataset_id is not None:
                dataset = DatasetRepository(session, caller.organization_id).get(options.dataset_id)
                check_own_table(dataset, options.table_name)

    def _check_storage(self, session: Session, caller: Identity, added: int = 0) -> None:
        limit = load_limits(session, caller.organization_id).storage_bytes
        check_storage(session, caller.organization_id, limit, added)

    def open_scratch(self) -> AbstractContextManager[Path]:
        """Return a context with a folder for one upload."""
        return self._files.open_scratch()

    def upload(
        self, database: Database, caller: Identity, source: Path, options: UploadOptions
    ) -> tuple[Versioned[DatasetWithVersion], ConvertedFile]:
        """Convert an uploaded file to Parquet and publish it: as a new dataset, or as the next version of one.

        The file is read and stored before the transaction begins. Raises BadInput and TooLarge for files that cannot be
        taken, and Conflict for columns whose types have changed; then nothing is stored.
        """
        self.check_upload(database, caller, options)
        converted = self._files.convert(
            ConversionRequest(
                str(source),
                str(source.parent),
                self._settings.files.upload_bytes,
                FORMATS[options.format] if options.format else None,
                options.delimiter,
                options.header,
                options.encoding,
                self._list_columns(database, caller, options.dataset_id),
                options.allow_type_changes,
            )
        )
        dataset_id, version_id = options.dataset_id or new_id(), new_id()
        location = version_key(caller.organization_id, dataset_id, version_id)
        key = f"{location}/{UPLOADED_FILE}"
        with open(converted.path, "rb") as content:
            self._storage.put(key, content)
        # it imports numpy, whose threads the process must not have before it forks
        from core.data.datasets.column_changes import compare_columns

        try:
            with database.write() as session:
                lock_organization(session, caller.organization_id)
                self._check_storage(session, caller, converted.size_bytes)
                datasets = DatasetRepository(session, caller.organization_id)
                if options.dataset_id is None:
                    dataset = datasets.create(options.to_dataset(), dataset_id)
                else:
                    dataset = datasets.get(dataset_id)
                    current = datasets.find_version(dataset)
                    if current is not None:
                        changes = compare_columns(current, converted.columns, options.allow_type_changes)
                        converted = replace(converted, warnings=[*converted.warnings, *changes])
                counts = converted.row_count, converted.size_bytes
                came = converted.detected.format
                written = NewVersion(location, "parquet", converted.columns, *counts, [key], source_format=came)
                datasets.publish(dataset, None, written, path=dataset.logical_path, version_id=version_id)
                session.flush()
                return self._load(datasets, dataset.id), converted
        except BaseException:
            self._storage.delete(key)
            raise

    def _list_columns(self, database: Database, caller: Identity, dataset_id: str | None) -> Sequence[tuple[str, str]]:
        """Return names and types of the columns of a dataset's current version that had values."""
        if dataset_id is None:
            return ()
        with database.read() as session:
            datasets = DatasetRepository(session, caller.organization_id)
            version = datasets.find_version(datasets.get(dataset_id))
            columns = version.columns if version else ()
            return [(column["name"], column["type"]) for column in columns if not column.get("untyped")]

    def list_versions(
        self, session: Session, caller: Identity, dataset_id: str, limit: int | None, before: int | None
    ) -> tuple[Dataset, Sequence[DatasetVersion]]:
        dataset = DatasetRepository(session, caller.organization_id).get(dataset_id)
        return dataset, list_versions(session, dataset, limit, before)

    def load_lineage(self, session: Session, caller: Identity, dataset_id: str) -> Lineage:
        return load_lineage(session, DatasetRepository(session, caller.organization_id).get(dataset_id))

    def restore(
        self, database: Database, caller: Identity, dataset_id: str, number: str
    ) -> tuple[Dataset, DatasetVersion]:
        """Make an earlier version current again, as a new version with the same files.

        Raises NotFound, and Conflict when its files are missing or an execution that writes the dataset has not ended.
        """
        with database.read() as session:
            dataset = DatasetRepository(session, caller.organization_id).get(dataset_id)
            version = get_version(session, dataset, number)
        self._check_files(caller.organization_id, dataset, version)
        with database.write() as session:
            datasets = DatasetRepository(session, caller.organization_id)
            dataset = datasets.lock(datasets.get(dataset_id))
            version = get_version(session, dataset, version.id)
            check_not_written(session, dataset, version)
            return dataset, datasets.restore(dataset, version)

    def set_retention(
        self, session: Session, caller: Identity, dataset_id: str, retention: Retention
    ) -> Versioned[DatasetWithVersion]:
        """Set how many versions are kept, and for how many days; None keeps all. Applied at once, and from then on."""
        for name, value in (("versions", retention.versions), ("days", retention.days)):
            if value is not None and not 1 <= value <= MAX_RETAINED:
                raise BadInput(f"'{name}' is 1 to {MAX_RETAINED:,}, or null to keep all.", path=name)
        plan = retention.maintenance
        if plan is not None:
            _check_days(plan, "maintenance.days")
            plan.parse_every()
        datasets = DatasetRepository(session, caller.organization_id)
        dataset = datasets.lock(datasets.get(dataset_id))
        dataset.retained_versions, dataset.retained_days = retention.versions, retention.days
        dataset.maintained_days, dataset.maintained_every = (plan.days, plan.every) if plan else (None, None)
        session.flush()
        apply_retention(session, dataset, now(), now() + self.removal_delay)
        return self._load(datasets, dataset_id)

    def maintain(
        self, database: Database, caller: Identity, dataset_id: str, request: MaintenanceRequest
    ) -> MaintenanceRecord:
        """Remove the files of a dataset's table that no version needs.

        Raises NotFound, and Conflict for tables that are not maintained or are being written.
        """
        _check_days(request, "days")
        due_at = now() + self.removal_delay
        return maintain_dataset(database, self._storage, caller.organization_id, dataset_id, request.days, due_at)

    def open_download(
        self, database: Database, caller: Identity, dataset_id: str, format: str, version: str | None
    ) -> Download:
        """Return the rows of a version as a stream. Raises NotFound, and Conflict when files of it are missing."""
        with database.read() as session:
            dataset = DatasetRepository(session, caller.organization_id).get(dataset_id)
            found = get_version(session, dataset, version)
        name = f"{dataset.slug}-{found.number}.{format}"
        keys = self._list_files(caller.organization_id, dataset, found)
        if len(keys) == 1 and found.format == format == "parquet" and not found.partition_by:
            try:
                return Download(name, self._storage.open(keys[0]), found.id)
            except NotStored as error:
                raise report_missing(self._storage, _name_version(dataset, found)) from error
        columns = [(column["name"], convert_type(column["type"], "spark", "duckdb")) for column in found.columns]
        urls = [self._storage.url_for(key, "signed") for key in keys]
        partition_by = get_folder_columns(found.format, found.partition_by)
        return Download(name, self._explain(self._files.export(urls, found.format, format, columns, partition_by)))

    def _check_files(self, organization_id: str, dataset: Dataset, version: DatasetVersion) -> None:
        """Raise Conflict when files of a version are missing; those of some tables are known only to Spark."""
        try:
            self._list_files(organization_id, dataset, version)
        except Unavailable as error:
            if error.details[0].code != "unsupported-table":
                raise

    def _list_files(self, organization_id: str, dataset: Dataset, version: DatasetVersion) -> list[str]:
        """Return the keys of a version's data files. Raises Conflict when some of them are missing."""
        place = (version.format, version.locations, version.snapshot)
        keys = list_version_files(self._storage, organization_id, *place, version.files)
        title = _name_version(dataset, version)
        if version.row_count and not keys:
            raise report_missing(self._storage, title)
        MISSING_FILES.check(self._storage, title, *place, keys)
        return keys

    def _explain(self, chunks: Generator[bytes]) -> Generator[bytes]:
        """Yield the chunks; tell files that are missing from a storage that does not work."""
        try:
            yield from chunks
        except Unavailable as error:
            raise self._storage_check.find_problem(CHECK_SECONDS) or error from error

    def _load(self, datasets: DatasetRepository, dataset_id: str) -> Versioned[DatasetWithVersion]:
        dataset = datasets.get(dataset_id)
        found = DatasetWithVersion(dataset, datasets.find_version(dataset))
        return Versioned(self._add_place(found), compute_etag(dataset))

    def _add_place(self, found: DatasetWithVersion) -> DatasetWithVersion:
        return replace(found, storage_type=get_storage_type(self._settings.storage), place=self.locate(found.version))

    def locate(self, version: DatasetVersion | None) -> Place:
        """Return where a version's files are, for readers other than the service."""
        return locate_version(self._storage, version)

    @property
    def removal_delay(self) -> timedelta:
        return timedelta(hours=self._settings.files.removed_files_hours)


def _check_days(request: MaintenanceRequest, path: str) -> None:
    if not 0 <= request.days <= MAX_RETAINED:
        raise BadInput(f"'days' is 0 to {MAX_RETAINED:,}.", path=path)


def _name_version(dataset: Dataset, version: DatasetVersion) -> str:
    return f"version {version.number} of {dataset.schema_slug}.{dataset.slug}"


def is_indexed(version: DatasetVersion | None) -> bool:
    """Whether SQL can query the dataset."""
    return version is not None and version.format in PARQUET_FORMATS
