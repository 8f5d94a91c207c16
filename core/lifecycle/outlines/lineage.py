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
    whole = _insert_values(path, values, project_slug)
    if whole is None or whole.startswith(("/", "~")) or ("://" in whole and not whole.startswith(SCHEME)):
        return None
    return (whole if "://" in whole else f"{SCHEME}{project_slug}/{whole}").rstrip("/")


def resolve_name(name: str, values: Mapping[str, object], project_slug: str) -> DatasetReference | None:
    """Return the dataset that a pipeline names; None with an open parameter."""
    whole = _insert_values(name, values, project_slug)
    return None if whole is None else parse_reference(whole)


def _insert_values(text: str, values: Mapping[str, object], project_slug: str) -> str | None:
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


def find_inputs(jobs: Sequence[JobPaths], datasets: Iterable[DatasetPlace]) -> dict[str, tuple[str, ...]]:
    """Return for every job the ids of the jobs whose output it reads or that it depends on, oldest first."""
    writers: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    tables: dict[tuple[str, str], str] = {(job.organization_id, job.table): job.job_id for job in jobs}
    for job in jobs:
        for path in job.writes:
            writers[job.organization_id, path].add(job.job_id)
    owners: dict[tuple[str, str], set[str]] = {}
    places = list(datasets)
    for place in places:
        if place.job_id is not None:
            tables[place.organization_id, place.table] = place.job_id
            owners[place.organization_id, place.dataset_id] = {place.job_id}
        else:
            owners[place.organization_id, place.dataset_id] = writers.get(
                (place.organization_id, place.logical_path or place.table), set()
            )
    known = {job.job_id for job in jobs}
    by_name: defaultdict[tuple[str, str, str], set[str]] = defaultdict(set)
    for job in jobs:
        by_name[job.organization_id, job.project_slug, job.name].add(job.job_id)
    named = _group_by_name(jobs, places, owners)
    found: dict[str, tuple[str, ...]] = {}
    for job in jobs:
        organization = job.organization_id
        upstream = set(owners.get((organization, job.input_dataset_id), ())) if job.input_dataset_id else set[str]()
        for name in job.depends_on:
            upstream |= by_name.get((organization, job.project_slug, name), set())
        paths = [*job.reads, *(each.path for each in job.named if each.path is not None)]
        for each in job.named:
            candidates = named.get((organization, each.name), ())
            chosen = choose_table(each.name, each.schema, job.project_slug, candidates) if each.path is None else None
            upstream |= chosen.jobs if chosen else set()
        for path in paths:
            if path in job.writes:
                continue  # its own earlier output, or a file that it has just saved
            table = tables.get((organization, path))
            upstream |= writers.get((organization, path)) or ({table} if table else set())
        found[job.job_id] = tuple(sorted(upstream & known - {job.job_id}))
    return found


def _group_by_name(
    jobs: Iterable[JobPaths], datasets: Iterable[DatasetPlace], owners: Mapping[tuple[str, str], set[str]]
) -> Mapping[tuple[str, str], Sequence[_WrittenTable]]:
    """Return the tables of every organization by their names: those of datasets, and those that jobs will publish."""
    tables: dict[tuple[str, str], frozenset[str]] = {
        (job.organization_id, job.table): frozenset({job.job_id}) for job in jobs
    }
    tables |= {
        (place.organization_id, place.table): frozenset(owners[place.organization_id, place.dataset_id])
        for place in datasets
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
