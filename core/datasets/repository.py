"""Datasets of an organization and their versions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select, select

from core.infra.repository import Repository
from core.infra.slugs import make_unique_slug
from core.infra.validation import is_storable
from core.tables import Dataset, DatasetVersion, Execution, Job, Project

DEFAULT_SCHEMA = "default"
SCHEME = "spindle://"


@dataclass(frozen=True, slots=True)
class DatasetWithVersion:
    """A dataset and its current version, if it was ever published."""

    dataset: Dataset
    version: DatasetVersion | None


@dataclass(frozen=True, slots=True)
class WrittenFiles:
    """The files that an execution wrote to one folder of the storage. Counts are null when unknown."""

    location: str
    format: str
    columns: Sequence[dict[str, Any]]
    row_count: int | None
    size_bytes: int | None


class DatasetRepository(Repository[Dataset]):
    row = Dataset
    noun = "dataset"

    def list(self, *, limit: int | None = None, after: str | None = None) -> Sequence[DatasetWithVersion]:
        query = self._limit_to_page(self._select_with_version(), limit, after)
        return [DatasetWithVersion(dataset, version) for dataset, version in self.session.execute(query)]

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
        return found or self._create(project, name=job.name, job_id=job.id, slug=job.slug)

    def ensure_of_path(self, project: Project, path: str, format_: str) -> Dataset:
        """Return the dataset that saves at a path in one format publish to. The first call creates it."""
        query = self._select().where(Dataset.job_id.is_(None), Dataset.logical_path == path, Dataset.format == format_)
        name = path.rpartition("/")[2]
        found = self.session.scalar(query)
        return found or self._create(project, name=name, slug=name, logical_path=path, format=format_)

    def publish(
        self,
        dataset: Dataset,
        execution: Execution,
        files: WrittenFiles,
        *,
        path: str | None,
        append_to: DatasetVersion | None = None,
    ) -> DatasetVersion:
        """Add a version and make it the current one. It adds to a version only if both have the same format."""
        earlier = append_to if append_to is not None and append_to.format == files.format else None
        version = DatasetVersion(
            dataset_id=dataset.id,
            execution_id=execution.id,
            logical_path=path,
            format=files.format,
            locations=[*(earlier.locations if earlier else ()), files.location],
            columns=list(files.columns),
            row_count=_add(files.row_count, earlier.row_count if earlier else 0),
            size_bytes=_add(files.size_bytes, earlier.size_bytes if earlier else 0),
        )
        self.session.add(version)
        self.session.flush()
        dataset.current_version_id, dataset.format = version.id, files.format
        return version

    def _select_published(self) -> Select[tuple[DatasetVersion]]:
        query = select(DatasetVersion).join(Dataset, DatasetVersion.dataset_id == Dataset.id)
        return query.where(Dataset.organization_id == self.organization_id)

    def _select_with_version(self) -> Select[Any]:
        current = DatasetVersion.id == Dataset.current_version_id
        query = select(Dataset, DatasetVersion).outerjoin(DatasetVersion, current)
        return query.where(Dataset.organization_id == self.organization_id)

    def _create(self, project: Project, *, slug: str, **values: Any) -> Dataset:
        query = select(Dataset.slug).where(Dataset.organization_id == self.organization_id)
        taken = set(self.session.scalars(query.where(Dataset.schema_slug == project.slug)))
        dataset = Dataset(
            organization_id=self.organization_id,
            project_id=project.id,
            schema_slug=project.slug,
            slug=make_unique_slug(slug, taken),
            **values,
        )
        self.session.add(dataset)
        self.session.flush()
        return dataset


def get_address(dataset: Dataset) -> str:
    """Return the spindle:// path that every `load_*` stage accepts for a dataset."""
    return dataset.logical_path or f"{SCHEME}{dataset.schema_slug}/{dataset.slug}"


def _add(added: int | None, earlier: int | None) -> int | None:
    return None if added is None or earlier is None else added + earlier
