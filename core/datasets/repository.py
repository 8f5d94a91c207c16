"""Datasets: named tables, each with a pointer to the version that its readers see."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Row as RowOf
from sqlalchemy import Select, select

from core.infra.repository import Repository
from core.infra.slugs import unique_slug
from core.infra.validation import storable
from core.tables import Dataset, DatasetVersion, Job, Project

DEFAULT_SCHEMA = "default"
SCHEME = "spindle://"


class Datasets(Repository[Dataset]):
    row = Dataset
    noun = "dataset"

    def list(self, *, limit: int | None = None, after: str | None = None) -> Sequence[Dataset]:
        return self._fetch_page(self._select(), limit, after)

    def get(self, dataset_id: str) -> Dataset:
        return self._fetch_by_id(dataset_id)

    def current_version(self, dataset: Dataset) -> DatasetVersion | None:
        """What readers of the dataset see; None before anything was published."""
        return self.session.get(DatasetVersion, dataset.current_version_id) if dataset.current_version_id else None

    def at(self, logical_path: str) -> tuple[Dataset, DatasetVersion] | None:
        """What lies at a spindle:// path: the newest output written to it, else the table of that schema and name."""
        if not storable(logical_path):
            return None
        written = self._published().where(DatasetVersion.logical_path == logical_path)
        newest = self.session.execute(written.order_by(DatasetVersion.id.desc()).limit(1)).first()
        row = newest or self._table_at(logical_path)
        return None if row is None else (row[0], row[1])

    def of_job(self, job: Job, project: Project) -> Dataset:
        """The dataset that the job publishes to, made when it publishes for the first time."""
        found = self.session.scalar(self._select().where(Dataset.job_id == job.id))
        if found is not None:
            return found
        dataset = Dataset(
            organization_id=self.organization_id,
            project_id=project.id,
            job_id=job.id,
            name=job.name,
            schema_slug=project.slug,
            slug=self._free_slug(project.slug, job.slug),
        )
        self.session.add(dataset)
        self.session.flush()
        return dataset

    def saved(self, project: Project, logical_path: str, format_: str) -> Dataset:
        """A new dataset for what pipelines save at this path."""
        name = logical_path.rpartition("/")[2]
        dataset = Dataset(
            organization_id=self.organization_id,
            project_id=project.id,
            name=name,
            schema_slug=project.slug,
            slug=self._free_slug(project.slug, name),
            logical_path=logical_path,
            format=format_,
        )
        self.session.add(dataset)
        self.session.flush()
        return dataset

    def _published(self) -> Select[tuple[Dataset, DatasetVersion]]:
        query = select(Dataset, DatasetVersion).join(DatasetVersion, DatasetVersion.dataset_id == Dataset.id)
        return query.where(Dataset.organization_id == self.organization_id)

    def _table_at(self, logical_path: str) -> RowOf[tuple[Dataset, DatasetVersion]] | None:
        schema, _, table = logical_path.removeprefix(SCHEME).partition("/")
        current = self._published().where(DatasetVersion.id == Dataset.current_version_id)
        return self.session.execute(current.where(Dataset.schema_slug == schema, Dataset.slug == table)).first()

    def _free_slug(self, schema: str, name: str) -> str:
        taken = select(Dataset.slug).where(Dataset.organization_id == self.organization_id)
        return unique_slug(name, set(self.session.scalars(taken.where(Dataset.schema_slug == schema))))


def address(dataset: Dataset) -> str:
    """The spindle:// path that every `load_*` stage accepts for this dataset."""
    return dataset.logical_path or f"{SCHEME}{dataset.schema_slug}/{dataset.slug}"
