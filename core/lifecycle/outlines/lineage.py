"""Lineage: the jobs whose output a job reads, by its input dataset and by the paths in its pipeline."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from core.data.datasets.references import DatasetReference, choose_table, parse_reference
from core.data.datasets.repository import SCHEME
from core.lifecycle.executions.parameters import OUTPUT_PREFIX

_REFERENCE = re.compile(r"\$\{([^{}\s]+)\}")


@dataclass(frozen=True, slots=True)
class JobPaths:
    """The inputs and outputs of a job, as whole spindle:// paths of its organization.

    `named` are the datasets that its pipeline reads by name, and `depends_on` the names of jobs of its project.
    """

    job_id: str
    name: str
    organization_id: str
    table: str
    depends_on: tuple[str, ...] = ()
    input_dataset_id: str | None = None
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    named: tuple[DatasetReference, ...] = ()

    @property
    def project_slug(self) -> str:
        return self.table.removeprefix(SCHEME).partition("/")[0]


@dataclass(frozen=True, slots=True)
class DatasetPlace:
    """Where a dataset is found, and the job whose output it is."""

    dataset_id: str
    organization_id: str
    job_id: str | None
    table: str
    logical_path: str | None


@dataclass(frozen=True, slots=True)
class Lineage:
    """The jobs that a job reads from, and those that it would read from if that did not close a cycle."""

    inputs: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _WrittenTable:
    """A table by its names, and the jobs that write it."""

    schema: str
    name: str
    jobs: frozenset[str]


def resolve_path(path: str, values: Mapping[str, object], project_slug: str) -> str | None:
    """Return the whole spindle:// path of a path in a pipeline; None outside the storage or with an open parameter."""
    whole = insert_values(path, values, project_slug)
    if whole is None or whole.startswith(("/", "~")) or ("://" in whole and not whole.startswith(SCHEME)):
        return None
    return (whole if "://" in whole else f"{SCHEME}{project_slug}/{whole}").rstrip("/")


def resolve_name(name: str, values: Mapping[str, object], project_slug: str) -> DatasetReference | None:
    """Return the dataset that a pipeline names; None with an open parameter."""
    whole = insert_values(name, values, project_slug)
    return None if whole is None else parse_reference(whole)


def insert_values(text: str, values: Mapping[str, object], project_slug: str) -> str | None:
    """Return the text with the values of its parameters; None when one has no value."""
    missing = False

    def replace(match: re.Match[str]) -> str:
        nonlocal missing
        name = match[1]
        if isinstance(value := values.get(name), str | int | float | bool):
            return str(value)
        missing = missing or not name.startswith(OUTPUT_PREFIX)
        return f"{SCHEME}{project_slug}/{name.lower()}"

    whole = _REFERENCE.sub(replace, text)
    return None if missing else whole


@dataclass(frozen=True, slots=True)
class FoundTable:
    """The jobs that write the inputs of a pipeline, and the path of its dataset, if there is one."""

    jobs: frozenset[str] = frozenset()
    dataset: str | None = None


class TableWriters:
    """The tables of organizations, with the jobs that write them."""

    def __init__(self, jobs: Sequence[JobPaths], datasets: Iterable[DatasetPlace]) -> None:
        self._jobs = jobs
        self._writers: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        self._tables: dict[tuple[str, str], str] = {(job.organization_id, job.table): job.job_id for job in jobs}
        for job in jobs:
            for path in job.writes:
                self._writers[job.organization_id, path].add(job.job_id)
        self._owners: dict[tuple[str, str], FoundTable] = {}
        self._paths: dict[tuple[str, str], str] = {}
        places = list(datasets)
        for place in places:
            organization = place.organization_id
            self._paths |= {(organization, path): place.table for path in (place.table, place.logical_path) if path}
            if place.job_id is not None:
                self._tables[organization, place.table] = place.job_id
                found = frozenset({place.job_id})
            else:
                found = frozenset(self._writers.get((organization, place.logical_path or place.table), ()))
            self._owners[organization, place.dataset_id] = FoundTable(found, place.table)
        self._named = _group_by_name(jobs, places, self._owners)

    def find_input(self, job: JobPaths) -> FoundTable:
        """Return the input dataset of a job."""
        return self._owners.get((job.organization_id, job.input_dataset_id or ""), FoundTable())

    def find_path(self, job: JobPaths, path: str) -> FoundTable:
        """Return what is at a path; nobody writes a job's own earlier output, or a file that it has just saved."""
        at = (job.organization_id, path)
        table = self._tables.get(at)
        found = self._writers.get(at) or ({table} if table else ())
        return FoundTable(frozenset() if path in job.writes else frozenset(found), self._paths.get(at))

    def find_named(self, job: JobPaths, reference: DatasetReference) -> FoundTable:
        """Return the dataset that a pipeline names."""
        if reference.path is not None:
            return self.find_path(job, reference.path)
        candidates = self._named.get((job.organization_id, reference.name), ())
        chosen = choose_table(reference.name, reference.schema, job.project_slug, candidates)
        return FoundTable(chosen.jobs, f"{SCHEME}{chosen.schema}/{chosen.name}") if chosen else FoundTable()

    def find_inputs(self) -> dict[str, tuple[str, ...]]:
        """Return for every job the ids of the jobs whose output it reads or that it depends on, oldest first."""
        by_name: defaultdict[tuple[str, str, str], set[str]] = defaultdict(set)
        for job in self._jobs:
            by_name[job.organization_id, job.project_slug, job.name].add(job.job_id)
        known = {job.job_id for job in self._jobs}
        found: dict[str, tuple[str, ...]] = {}
        for job in self._jobs:
            upstream = {*self.find_input(job).jobs}
            for name in job.depends_on:
                upstream |= by_name.get((job.organization_id, job.project_slug, name), set())
            tables = (
                *(self.find_path(job, each) for each in job.reads),
                *(self.find_named(job, each) for each in job.named),
            )
            upstream |= {each for table in tables for each in table.jobs}
            found[job.job_id] = tuple(sorted(upstream & known - {job.job_id}))
        return found


def _group_by_name(
    jobs: Iterable[JobPaths], datasets: Iterable[DatasetPlace], owners: Mapping[tuple[str, str], FoundTable]
) -> Mapping[tuple[str, str], Sequence[_WrittenTable]]:
    """Return the tables of every organization by their names: those of datasets, and those that jobs will publish."""
    tables: dict[tuple[str, str], frozenset[str]] = {
        (job.organization_id, job.table): frozenset({job.job_id}) for job in jobs
    }
    tables |= {
        (place.organization_id, place.table): owners[place.organization_id, place.dataset_id].jobs for place in datasets
    }
    named: defaultdict[tuple[str, str], list[_WrittenTable]] = defaultdict(list)
    for (organization, table), written_by in tables.items():
        schema, _, name = table.removeprefix(SCHEME).partition("/")
        named[organization, name].append(_WrittenTable(schema, name, written_by))
    return named


def find_cycle(inputs: Mapping[str, Sequence[str]], job_id: str) -> tuple[str, ...]:
    """Return a shortest cycle through a job, from the job on, each of whose jobs reads the next; empty without one."""
    paths: dict[str, tuple[str, ...]] = {job_id: (job_id,)}
    level = [job_id]
    while level:
        found: list[str] = []
        for reader in level:
            for each in inputs.get(reader, ()):
                if each == job_id:
                    return paths[reader]
                if each not in paths:
                    paths[each] = (*paths[reader], each)
                    found.append(each)
        level = found
    return ()


def drop_cycles(inputs: Mapping[str, Sequence[str]]) -> dict[str, Lineage]:
    """Drop the inputs that close a cycle; of equal graphs, always the same ones: a depth-first search by job id."""
    finished: set[str] = set()
    dropped: defaultdict[str, list[str]] = defaultdict(list)
    for root in sorted(inputs):
        if root in finished:
            continue
        path = {root}
        stack = [(root, iter(inputs[root]))]
        while stack:
            job_id, rest = stack[-1]
            for each in rest:
                if each in path:
                    dropped[job_id].append(each)
                elif each not in finished and each in inputs:
                    path.add(each)
                    stack.append((each, iter(inputs[each])))
                    break
            else:
                stack.pop()
                path.discard(job_id)
                finished.add(job_id)
    return {
        job_id: Lineage(tuple(each for each in all_ if each not in dropped[job_id]), tuple(dropped[job_id]))
        if job_id in dropped
        else Lineage(tuple(all_))
        for job_id, all_ in inputs.items()
    }
