"""Sources of a job as assets, and its columns with those of the assets that they are made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from core.data.datasets.references import parse_reference
from core.data.datasets.repository import SCHEME
from core.lifecycle.outlines.lineage import FoundTable, JobPaths, TableWriters, insert_values, resolve_path
from pipelines.contract.request import get_input_name
from pipelines.filesystem import split_address
from pipelines.language.origins import TracedColumn
from pipelines.planning.lineage import name_source

AssetPath = tuple[str, ...]
UPLOADED = "uploaded dataset"  # or one of rows that a job has set aside
_WEB = ("http://", "https://")
_DATABASE = "jdbc:"


@dataclass(frozen=True, slots=True)
class SourceOutline:
    """A source that no job writes, such as a host: its asset's key, and what it is.

    The key has the `kind` before the names of the source: its space is in no key of a job.
    """

    key: AssetPath
    kind: str
    address: str


@dataclass(frozen=True, slots=True)
class ColumnOutline:
    """A column of a job's table; `sources` are columns of assets, selectors of sites, or (None) the whole asset."""

    name: str
    description: str | None = None
    sources: tuple[tuple[AssetPath, str | None], ...] = ()
    is_whole: bool = False


@dataclass(frozen=True, slots=True)
class JobSources:
    """The sources of a job that no job writes, and its columns."""

    sources: tuple[SourceOutline, ...] = ()
    columns: tuple[ColumnOutline, ...] = ()


class SourceFinder:
    """Finds the assets of the addresses, paths and names in a job's pipeline."""

    def __init__(
        self,
        job: JobPaths,
        values: Mapping[str, object],
        writers: TableWriters | None,
        keys: Mapping[str, AssetPath],
        prefix: AssetPath,
    ) -> None:
        self._job = job
        self._values = values
        self._writers = writers
        self._keys = keys
        self._prefix = prefix

    def find(self, columns: Iterable[TracedColumn], sources: Iterable[str]) -> JobSources:
        """Return the sources and the columns, without sources whose parameters have no value here."""
        known = {each: self._find_assets(each) for each in sources}
        assets = [asset for each in known.values() for asset in each]
        if self._writers is not None and self._job.input_dataset_id:
            assets += self._name_table(self._writers.find_input(self._job), "")
        found = dict.fromkeys(each for each in assets if isinstance(each, SourceOutline))
        return JobSources(tuple(found), tuple(self._outline(each, known) for each in columns))

    def _outline(self, column: TracedColumn, known: Mapping[str, Sequence[SourceOutline | AssetPath]]) -> ColumnOutline:
        assets = [(each, asset) for each in column.sources for asset in known.get(each.source, ())]
        sources = [(asset.key if isinstance(asset, SourceOutline) else asset, each.column) for each, asset in assets]
        return ColumnOutline(column.name, column.description, tuple(dict.fromkeys(sources)), column.is_whole)

    def _find_assets(self, source: str) -> Sequence[SourceOutline | AssetPath]:
        name = get_input_name(source)
        whole = insert_values(name, self._values, self._job.project_slug)
        if whole is None:
            return ()
        if name != source:
            reference = parse_reference(whole)
            found = self._writers.find_named(self._job, reference) if self._writers else FoundTable()
            return self._name_table(found, str(reference))
        address = name_source(whole)
        if address.startswith(_WEB):
            return [self._make("web site", address, address.partition("://")[2])]
        if address.startswith(_DATABASE):
            return [self._make("database table", address, *address.partition("://")[2].split("/"))]
        if bucket := split_address(address):
            scheme = address.partition("://")[0]
            return [self._make("bucket of files", f"{scheme}://{bucket[0]}", bucket[0])]
        path = resolve_path(name, self._values, self._job.project_slug)
        if path is None:
            return [self._make("local file", address, *filter(None, address.split("/")))]
        found = self._writers.find_path(self._job, path) if self._writers else FoundTable()
        return () if path in self._job.writes else self._name_table(found, path)

    def _name_table(self, found: FoundTable, name: str) -> Sequence[SourceOutline | AssetPath]:
        """Return the jobs that write a table, or the table where it was uploaded."""
        if jobs := [self._keys[each] for each in sorted(found.jobs) if each in self._keys]:
            return jobs
        path = found.dataset or name
        return [self._make(UPLOADED, path, *path.removeprefix(SCHEME).split("/"))] if path else []

    def _make(self, kind: str, address: str, *parts: str) -> SourceOutline:
        return SourceOutline((*self._prefix, kind, *parts), kind, address)
