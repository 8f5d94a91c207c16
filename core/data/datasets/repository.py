"""Datasets of an organization and their versions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Select, func, or_, select, true

from core.data.datasets.models import DatasetCreate, DatasetUpdate
from core.data.datasets.version_files import NOWHERE, Place
from core.definitions.projects.repository import ProjectRepository
from core.errors import BadInput, Conflict, NotFound
from core.infra.repository import Repository, lock_organization
from core.infra.slugs import make_slug
from core.infra.validation import is_storable
from core.tables import Dataset, DatasetVersion, Job, Project, new_id
from core.tables.datasets import StoredPartition
from pipelines.language.formats import PARQUET_FORMATS, TABLE_FORMATS
from pipelines.tables.snapshots import get_position

DEFAULT_SCHEMA = "default"
TRIAL = "TRIAL"  # the type of a dataset with the rows of an execution that does not publish
SCHEME = "spindle://"
SLUG_BATCH = 50
MAX_SLUG_BATCH = 1000
MAX_PATH_CHARACTERS = 1000
KEPT_OF_PARTITIONS = 100  # versions of a dataset with partitions, each of which lists all of them
RESTORED_FIELDS = (
    *("format", "locations", "files", "snapshot", "columns", "partition_by", "keys"),
    *("row_count", "size_bytes", "source_format", "known_pages", "partition_scheme", "partitions"),
)


@dataclass(frozen=True, slots=True)
class DatasetWithVersion:
    """A dataset and its current version, if it was ever published. The storage type is LOCAL or S3."""

    dataset: Dataset
    version: DatasetVersion | None
    storage_type: str = "LOCAL"
    place: Place = NOWHERE


@dataclass(frozen=True, slots=True)
class NewVersion:
    """The content of a version to publish: the files in one folder of the storage, or the `snapshot` of a table.

    Counts are null when unknown; those of a table are of all its rows. `files` are the keys of the data files; None for
    a table, whose own log lists them. Uploads came in the `source_format`. A table that is `extended` has files of its
    earlier version too.
    """

    location: str
    format: str
    columns: Sequence[dict[str, Any]]
    row_count: int | None
    size_bytes: int | None
    files: Sequence[str] | None = None
    snapshot: str | None = None
    partition_by: Sequence[str] = ()
    keys: Sequence[str] = ()
    source_format: str | None = None
    extended: bool = False


@dataclass(frozen=True, slots=True)
class ReplacedPartition:
    """The partition that new files are, and the parts of the version before that stay beside it.

    Those of a table's version are `logged`, with the new one, as its log has them.
    """

    key: str
    scheme: str
    kept: Mapping[str, StoredPartition]
    logged: Mapping[str, StoredPartition] | None = None


@dataclass(frozen=True, slots=True)
class DatasetFilter:
    """The conditions that listed datasets meet; texts match in any case, None matches all."""

    dataset_type: str | None = None
    format: str | None = None
    storage_type: str | None = None
    indexed: bool | None = None
    project_id: str | None = None
    name: str | None = None


class DatasetRepository(Repository[Dataset]):
    row = Dataset
    noun = "dataset"

    def list(
        self, *, limit: int | None = None, after: str | None = None, where: DatasetFilter | None = None
    ) -> Sequence[DatasetWithVersion]:
        where = where or DatasetFilter()
        query = self._filter(self._select_with_version(), where)
        rows = self.session.execute(self._limit_to_page(query, limit, after))
        return [DatasetWithVersion(dataset, version) for dataset, version in rows]

    def create(self, new: DatasetCreate, dataset_id: str | None = None) -> Dataset:
        """Create a dataset without a version, in a project or in the schema `default`; the id is new unless given.

        A path that has a dataset already means that one. Raises BadInput for an unknown type, project or a path outside
        the organization's storage; Conflict when the table's name is taken.
        """
        columns = new.to_columns()
        project = self._get_project(new.project_id) if new.project_id else None
        path = new.storage_path or new.file_path or None
        if path is not None:
            path = self._check_path(path)
        lock_organization(self.session, self.organization_id)
        if path is not None and (found := self._find_by_path(path)):
            return found
        slug = path.rpartition("/")[2] if path else new.name
        schema = project.slug if project else path.removeprefix(SCHEME).split("/")[0] if path else DEFAULT_SCHEMA
        owner = project or self.session.scalar(self._select_projects().where(Project.slug == schema))
        columns |= {"id": dataset_id or new_id(), "logical_path": path}
        schema = owner.slug if owner else schema
        if new.table_name:
            self._check_table_name(schema, new.table_name)
        return self._create(owner, schema=schema, slug=new.table_name or slug, **columns)

    def check(self, new: DatasetCreate) -> None:
        """Raise BadInput for fields that `create` would refuse, NotFound for an unknown project."""
        new.to_columns()
        if new.project_id:
            ProjectRepository(self.session, self.organization_id).get(new.project_id)

    def update(self, dataset_id: str, changes: DatasetUpdate) -> Dataset:
        """Apply the changed fields. The slug stays, so a rename does not change names in SQL."""
        dataset, columns = self.get(dataset_id), changes.to_columns()
        check_own_table(dataset, changes.table_name)
        if dataset.current_version_id is not None:  # a published version has its own format
            columns.pop("format", None)
        return self._apply(dataset, columns)

    def find_jobs_reading(self, dataset: Dataset) -> Sequence[Job]:
        """Return the jobs whose input the dataset is."""
        query = select(Job).where(Job.organization_id == self.organization_id, Job.input_dataset_id == dataset.id)
        return self.session.scalars(query.order_by(Job.id)).all()

    def get(self, dataset_id: str) -> Dataset:
        return self._fetch_by_id(dataset_id)

    def get_of_job(self, project_id: str, job_id: str, dataset_id: str) -> Dataset:
        """Return a dataset of this project and job. Raises NotFound."""
        dataset = self.get(dataset_id)
        if (dataset.project_id, dataset.job_id) != (project_id, job_id):
            raise self._not_found()
        return dataset

    def find_version(self, dataset: Dataset) -> DatasetVersion | None:
        """Return the current version, or None for a dataset that was never published."""
        return self.session.get(DatasetVersion, dataset.current_version_id) if dataset.current_version_id else None

    def find_at(self, path: str) -> DatasetVersion | None:
        """Return the newest version that was written to a spindle:// path, or else of the table of that name."""
        if not is_storable(path):
            return None
        written = self._select_published().where(DatasetVersion.logical_path == path)
        newest = self.session.scalar(written.order_by(DatasetVersion.id.desc()).limit(1))
        if newest is not None:
            return newest
        schema, _, table = path.removeprefix(SCHEME).partition("/")
        current = self._select_published().where(DatasetVersion.id == Dataset.current_version_id)
        return self.session.scalar(current.where(Dataset.schema_slug == schema, Dataset.slug == table))

    def ensure_of_job(self, job: Job, project: Project) -> Dataset:
        """Return the dataset that a job publishes to. The first call creates it."""
        found = self.session.scalar(self._select().where(Dataset.job_id == job.id))
        return found or self._create(project, name=job.name, job_id=job.id, slug=job.slug, schema=project.slug)

    def ensure_of_path(self, project: Project, path: str, format_: str) -> Dataset:
        """Return the dataset that saves at a path in one format publish to. The first call creates it."""
        query = self._select().where(Dataset.job_id.is_(None), Dataset.logical_path == path, Dataset.format == format_)
        name = path.rpartition("/")[2]
        found = self.session.scalar(query)
        values = {"name": name, "slug": name, "logical_path": path, "format": format_}
        return found or self._create(project, schema=project.slug, **values)

    def create_trial(self, job: Job, project: Project, execution_id: str) -> Dataset:
        """Create the dataset of an execution that does not publish. Only its id and its name in SQL lead to it."""
        name = f"{job.slug}@{execution_id}"
        values = {"name": name, "slug": name, "dataset_type": TRIAL}
        dataset = Dataset(
            organization_id=self.organization_id, project_id=project.id, schema_slug=project.slug, **values
        )
        self.session.add(dataset)
        self.session.flush()
        return dataset

    def publish(
        self,
        dataset: Dataset,
        execution_id: str | None,
        files: NewVersion,
        *,
        path: str | None,
        append_to: DatasetVersion | None = None,
        partition: ReplacedPartition | None = None,
        version_id: str | None = None,
    ) -> DatasetVersion:
        """Add a version and make it the current one. It adds to a version only if both have the same format.

        A table's version has the rows of those before it in the table's log; one that is published after a later one
        does not become current. With a `partition` it keeps the others of the current one. The caller has locked the
        organization.
        """
        earlier = append_to if append_to is not None and append_to.format == files.format else None
        if files.format in TABLE_FORMATS:
            earlier = None
        current = self.find_version(dataset)
        version = DatasetVersion(
            id=version_id or new_id(),
            dataset_id=dataset.id,
            number=self._choose_number(dataset),
            execution_id=execution_id,
            logical_path=path,
            format=files.format,
            locations=[*(earlier.locations if earlier else ()), files.location],
            files=_add_files(earlier, files),
            snapshot=files.snapshot,
            source_format=files.source_format,
            partition_by=list(files.partition_by),
            keys=list(files.keys),
            columns=_merge_columns(earlier.columns if earlier else (), files.columns),
            row_count=_add(files.row_count, earlier.row_count if earlier else 0),
            size_bytes=_add(files.size_bytes, earlier.size_bytes if earlier else 0),
            added_bytes=_measure_added(current, files),
            known_pages=current.known_pages if current else None,
        )
        if partition is not None:
            if partition.logged is None:
                _keep_partitions(version, current, partition)
            else:
                version.partition_scheme, version.partitions = partition.scheme, dict(partition.logged)
                version.added_bytes = partition.logged[partition.key].bytes or 0
            if dataset.retained_versions is None and dataset.retained_days is None:
                dataset.retained_versions = KEPT_OF_PARTITIONS
        self.session.add(version)
        dataset.stored_bytes += version.added_bytes
        self.session.flush()
        if not _is_later(current, version):
            dataset.current_version_id, dataset.format = version.id, files.format
        elif current is not None and partition is not None and partition.key in current.partitions:
            written = replace(current.partitions[partition.key], execution_id=execution_id or "")
            current.partitions = {**current.partitions, partition.key: written}
        return version

    def restore(self, dataset: Dataset, version: DatasetVersion) -> DatasetVersion:
        """Add a version with the content of an earlier one and make it the current one.

        The caller has locked the organization.
        """
        content = {name: getattr(version, name) for name in RESTORED_FIELDS}
        restored = DatasetVersion(
            dataset_id=dataset.id,
            number=self._choose_number(dataset),
            logical_path=dataset.logical_path,
            restored_from=version.number,
            **content,
        )
        self.session.add(restored)
        self.session.flush()
        dataset.current_version_id, dataset.format = restored.id, restored.format
        dataset.unshown_version_id = restored.id if dataset.job_id else None
        return restored

    def _choose_number(self, dataset: Dataset) -> int:
        newest = select(func.max(DatasetVersion.number)).where(DatasetVersion.dataset_id == dataset.id)
        return (self.session.scalar(newest) or 0) + 1

    def _select_published(self) -> Select[tuple[DatasetVersion]]:
        query = select(DatasetVersion).join(Dataset, DatasetVersion.dataset_id == Dataset.id)
        return query.where(Dataset.organization_id == self.organization_id)

    def _select_with_version(self) -> Select[Any]:
        current = DatasetVersion.id == Dataset.current_version_id
        query = select(Dataset, DatasetVersion).outerjoin(DatasetVersion, current)
        return query.where(Dataset.organization_id == self.organization_id)

    def _filter(self, query: Select[Any], where: DatasetFilter) -> Select[Any]:
        if where.dataset_type is not None:
            query = query.where(Dataset.dataset_type == where.dataset_type.upper())
        else:
            query = query.where(Dataset.dataset_type != TRIAL)
        if where.format is not None:
            format_ = where.format.lower()
            query = query.where(or_(Dataset.format == format_, DatasetVersion.source_format == format_))
        if where.indexed is not None:
            indexed = func.coalesce(DatasetVersion.format, "").in_(PARQUET_FORMATS)
            query = query.where(indexed if where.indexed else ~indexed)
        if where.project_id is not None:
            query = query.where(Dataset.project_id == where.project_id if is_storable(where.project_id) else ~true())
        if where.name is not None:
            query = query.where(Dataset.name == where.name if is_storable(where.name) else ~true())
        return query

    def _get_project(self, project_id: str) -> Project:
        try:
            return ProjectRepository(self.session, self.organization_id).get(project_id)
        except NotFound as error:
            raise BadInput(error.sentence, path="projectId", code="not-found") from error

    def _select_projects(self) -> Select[tuple[Project]]:
        return select(Project).where(Project.organization_id == self.organization_id)

    def _check_path(self, path: str) -> str:
        """Return a spindle:// path below one of the organization's schemas."""
        parts = path.removeprefix(SCHEME).rstrip("/").split("/")
        normal = (
            path.startswith(SCHEME) and len(parts) > 1 and all(part.strip() not in ("", ".", "..") for part in parts)
        )
        known = normal and is_storable(path) and len(path) <= MAX_PATH_CHARACTERS
        if known and parts[0] != DEFAULT_SCHEMA:
            known = self.session.scalar(self._select_projects().where(Project.slug == parts[0])) is not None
        if not known:
            sentence = f"The path '{path[:200]}' is not in the organization's storage (spindle://<project>/<name>)."
            raise BadInput(sentence, code="path-outside-storage", path="storagePath")
        return SCHEME + "/".join(parts)

    def _find_by_path(self, path: str) -> Dataset | None:
        """Return the dataset that the path means, or one that nothing was saved to yet."""
        version = self.find_at(path)
        if version is not None:
            return self.get(version.dataset_id)
        return self.session.scalar(self._select().where(Dataset.logical_path == path).limit(1))

    def _check_table_name(self, schema: str, name: str) -> None:
        """Raise BadInput for a name that no table has, Conflict for one that another has."""
        if name != make_slug(name):
            sentence = f"'{name[:60]}' cannot name a table: use lower-case letters, digits and single underscores."
            raise BadInput(sentence, path="tableName")
        taken = self._select().where(Dataset.schema_slug == schema, Dataset.slug == name)
        if self.session.scalar(taken) is not None:
            raise Conflict(f"There is a table {schema}.{name} already.", code="name-taken", path="tableName")

    def _create(self, project: Project | None, *, schema: str, slug: str, **values: Any) -> Dataset:
        dataset = Dataset(
            organization_id=self.organization_id,
            project_id=project and project.id,
            schema_slug=schema,
            slug=self._choose_slug(schema, slug),
            **values,
        )
        self.session.add(dataset)
        self.session.flush()
        return dataset

    def _choose_slug(self, schema: str, name: str) -> str:
        """Return the first free slug of a name. It asks for some candidates at a time, and never for all datasets."""
        slug, first, size = make_slug(name), 1, SLUG_BATCH
        while True:
            candidates = [f"{slug}_{number}" if number > 1 else slug for number in range(first, first + size)]
            query = self._select().with_only_columns(Dataset.slug).where(Dataset.schema_slug == schema)
            taken = set(self.session.scalars(query.where(Dataset.slug.in_(candidates))))
            free = next((candidate for candidate in candidates if candidate not in taken), None)
            if free is not None:
                return free
            first, size = first + size, min(2 * size, MAX_SLUG_BATCH)


def check_own_table(dataset: Dataset, table_name: str | None) -> None:
    """Raise BadInput for another name than that of the dataset's table."""
    if table_name and table_name != dataset.slug:
        sentence = f"The table is named {dataset.slug}, and its name cannot be changed. Leave 'tableName' out."
        raise BadInput(sentence, path="tableName")


def get_address(dataset: Dataset) -> str:
    """Return the spindle:// path that every `load_*` stage accepts for a dataset."""
    return dataset.logical_path or f"{SCHEME}{dataset.schema_slug}/{dataset.slug}"


def _add_files(earlier: DatasetVersion | None, added: NewVersion) -> list[str] | None:
    """Return all files of a version; None where they are not known one by one."""
    if added.files is None or added.format in TABLE_FORMATS:
        return None
    if earlier is None:
        return [*added.files]
    return None if earlier.files is None else [*earlier.files, *added.files]


def _measure_added(current: DatasetVersion | None, files: NewVersion) -> int:
    size = files.size_bytes or 0
    if not files.extended or current is None or current.locations != [files.location]:
        return size
    return max(size - (current.size_bytes or 0), 0)


def _keep_partitions(version: DatasetVersion, current: DatasetVersion | None, partition: ReplacedPartition) -> None:
    """Make a version of the files of one partition one of all: the files of the others stay where they are."""
    own = {column["name"].casefold() for column in version.columns}
    before = current.columns if current is not None and partition.kept else ()
    known = {column["name"].casefold() for column in before}
    location, execution_id = version.locations[0], version.execution_id or ""
    parts = {key: replace(part, lacks=(*part.lacks, *sorted(own - known))) for key, part in partition.kept.items()}
    lacks = tuple(sorted(known - own))
    parts[partition.key] = StoredPartition(execution_id, location, version.row_count, version.size_bytes, lacks)
    unused = set[str].intersection(*(set(part.lacks) for part in parts.values()))
    parts = {key: replace(part, lacks=tuple(set(part.lacks) - unused)) for key, part in parts.items()}
    merged = _merge_columns(before, version.columns)
    version.columns = [column for column in merged if column["name"].casefold() not in unused]
    version.partition_scheme, version.partitions = partition.scheme, parts
    version.locations = [part.location for part in parts.values()]
    folders = {part.location for part in partition.kept.values()}
    kept = (current.files or ()) if current is not None else ()
    version.files = [*(file for file in kept if file.rpartition("/")[0] in folders), *(version.files or ())]
    for part in partition.kept.values():
        version.row_count = _add(part.rows, version.row_count)
        version.size_bytes = _add(part.bytes, version.size_bytes)


def _is_later(current: DatasetVersion | None, version: DatasetVersion) -> bool:
    """Return whether both are versions of one table, and the current one is later in its log."""
    if current is None or current.snapshot is None or version.snapshot is None:
        return False
    if (current.format, current.locations) != (version.format, version.locations):
        return False
    return get_position(current.format, current.snapshot) > get_position(version.format, version.snapshot)


def _merge_columns(earlier: Iterable[dict[str, Any]], added: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the columns of files that are read together, by name in any case."""
    merged = {column["name"].casefold(): column for column in earlier}
    for column in added:
        name = column["name"].casefold()
        merged[name] = _add_details(merged[name], column) if name in merged else column
    return list(merged.values())


def _add_details(earlier: Mapping[str, Any], added: Mapping[str, Any]) -> dict[str, Any]:
    """Return a column with the newer description, and the sources of the rows of both."""
    sources = [*earlier.get("sources", ())]
    sources += [each for each in added.get("sources", ()) if each not in sources]
    details = {name: added.get(name) or earlier.get(name) for name in ("description", "whole")} | {"sources": sources}
    return {**earlier, **{name: value for name, value in details.items() if value}}


def _add(added: int | None, earlier: int | None) -> int | None:
    return None if added is None or earlier is None else added + earlier
