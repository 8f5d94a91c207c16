"""Paths that a pipeline reads and writes, resolved inside the organization's storage."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from sqlalchemy import select
from sqlalchemy.orm import Session

from core.data.datasets.references import DatasetReference, choose_table, parse_reference
from core.data.datasets.repository import MAX_PATH_CHARACTERS, SCHEME, DatasetRepository, get_address
from core.data.datasets.versions import get_version
from core.definitions.jobs.partitions import make_partition_columns
from core.errors import BadInput, Conflict, Detail, NotFound
from core.infra.validation import is_storable
from core.tables import Dataset, DatasetRead, DatasetVersion, Execution, Job, Project
from core.tables.executions import ColumnTypes, FrozenInput
from pipelines.contract.request import get_input_name, make_table_key
from pipelines.filesystem import split_address
from pipelines.language.columns import UNKNOWN
from pipelines.language.names import suggest
from pipelines.planning.plan import Plan, Step
from pipelines.planning.stage import LinkStage, Sink, Stage


def resolve_output(session: Session, project: Project, path: str | None, field: str = "output.path") -> str | None:
    """Return the spindle:// path that rows are written to; a bare path is relative to the project's storage.

    Raises BadInput for a path outside the organization's storage.
    """
    if path is None or split_address(path):  # a bucket of the user is written to by the driver
        return None
    name = path if "://" in path else f"{SCHEME}{project.slug}/{path}"
    parts = name.removeprefix(SCHEME).rstrip("/").split("/")
    is_local = not name.startswith(SCHEME) or path.startswith(("/", "~"))
    if is_local or len(name) > MAX_PATH_CHARACTERS or len(parts) < 2:
        raise _make_outside(project, path, field)
    if any(part.strip() in ("", ".", "..") for part in parts):
        raise _make_outside(project, path, field)
    owned = select(Project.id).where(Project.organization_id == project.organization_id, Project.slug == parts[0])
    if session.scalar(owned) is None:
        raise _make_outside(project, path, field)
    return SCHEME + "/".join(parts)


def get_rejected_path(project: Project, job: Job) -> str:
    """Return the path of the dataset of the rows that a job's checks set aside."""
    return f"{SCHEME}{project.slug}/{job.slug}_rejected"


def check_rejected_path(
    session: Session, project: Project, job: Job, plan: Plan, written: Iterable[str | None]
) -> None:
    """Raise BadInput where checks set rows aside, and another job or the plan itself writes to their path."""
    call = next((each for each in plan.checks if each.check.sets_aside), None)
    if call is None:
        return
    path = get_rejected_path(project, job)
    others = select(Job.id).where(Job.project_id == project.id, Job.slug == f"{job.slug}_rejected")
    writer = "this pipeline" if path in written else "another job" if session.scalar(others) is not None else None
    if writer:
        message = f"Rows that checks set aside are published to {path}, which {writer} writes: give it another name."
        raise BadInput(message, [Detail(call.path, message, "duplicate-path")])


def resolve_inputs(session: Session, project: Project, job: Job, plan: Plan) -> dict[str, FrozenInput]:
    """Return the version of every dataset that the plan of a job reads, by its path in the pipeline or the key of its
    name.

    A path that an earlier stage of the plan saves to may be without a dataset; one that only the job's own output
    writes has no rows yet, in the columns of the output. Raises BadInput for any other path without a dataset, for a
    name without one, and for a save outside the organization's storage.
    """
    own = resolve_output(session, project, plan.output.path) or f"{SCHEME}{project.slug}/{job.slug}"
    datasets = DatasetRepository(session, project.organization_id)
    inputs: dict[str, FrozenInput] = {}
    saved: set[str] = set()
    for step in plan.steps:
        if isinstance(step.stage, Sink) and not is_local(step.stage.path):
            saved.add(step.stage.path)
            resolve_output(session, project, step.stage.path, f"line {step.line}")
        for path in _list_reads(step):
            whole = (path if "://" in path else f"{SCHEME}{project.slug}/{path}").rstrip("/")
            if (version := datasets.find_at(whole)) is not None:
                inputs[path] = _freeze(version)
            elif whole == own and path not in saved and not isinstance(step.stage, Sink | LinkStage):
                inputs[path] = replace(_NOTHING, columns=_list_output_columns(plan))
            elif path not in saved:
                message = f"There is no dataset at '{path}' yet. {_suggest_paths(datasets, path)}"
                raise BadInput(message, [Detail(f"line {step.line}", message, "unknown-dataset")])
        if step.stage:
            names = step.stage.list_tables()
            may_be_empty = step.stage.takes_empty_tables and step is not plan.steps[0]
            empty = [each for each in names if may_be_empty and _is_own_unpublished(session, project, job, each)]
            names = [each for each in names if each not in empty]
            versions = {name: resolve_table(session, project, name, f"line {step.line}") for name in names}
            _check_columns(step.stage, versions, f"line {step.line}")
            inputs |= {make_table_key(name): _freeze(version) for name, version in versions.items()}
            inputs |= {make_table_key(name): _NOTHING for name in empty}
    return inputs


def _list_output_columns(plan: Plan) -> ColumnTypes:
    """Return the columns of the output that planning knows; those whose types only a run shows are text."""
    of_json = plan.columns.json_names
    return tuple(
        (name, "string" if name in of_json or type_ == UNKNOWN else type_) for name, type_ in plan.columns.types
    )


def _is_own_unpublished(session: Session, project: Project, job: Job, name: str) -> bool:
    """Return whether a name means the job's own table, which has no version yet."""
    reference = parse_reference(name)
    own = f"{SCHEME}{project.slug}/{job.slug}"
    path = reference.path or f"{SCHEME}{reference.schema or project.slug}/{reference.name}"
    if path != own or reference.version is not None:
        return False
    return DatasetRepository(session, project.organization_id).find_at(own) is None


def _check_columns(stage: Stage, versions: Mapping[str, DatasetVersion], field: str) -> None:
    """Raise BadInput for columns that the stage reads of a dataset, and the dataset's version lacks."""
    details: list[Detail] = []
    for name, column in stage.list_table_columns():
        columns = versions[name].columns if name in versions else ()
        spellings = {each["name"].casefold(): str(each["name"]) for each in columns}
        if spellings and column.casefold() not in spellings:
            similar = [spellings[each] for each in suggest(column.casefold(), spellings)]
            hint = f"; did you mean {' or '.join(similar)}?" if similar else "."
            message = f"There is no column '{column}' in the dataset '{name}'{hint}"
            details.append(Detail(field, message, "unknown-column"))
    if details:
        raise BadInput(details[0].message, details)


_NOTHING = FrozenInput(dataset="", version="", number=0, format="parquet", locations=())


@dataclass(frozen=True, slots=True)
class _DatasetName:
    """A dataset's names in queries and pipelines."""

    dataset_id: str
    schema: str
    name: str

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"


def resolve_table(session: Session, project: Project, name: str, field: str) -> DatasetVersion:
    """Return the version that a pipeline's name of a dataset means: `project.job`, a table or a spindle:// path.

    `@` and a number at its end choose a version, by default the current one. A table without a project is the own
    project's, or else the organization's only one of that name. Raises BadInput, at `field`, when there is none.
    """
    reference, datasets = parse_reference(name), DatasetRepository(session, project.organization_id)
    dataset = _find_dataset(session, project, reference, name, field)
    try:
        version = get_version(session, dataset, reference.version) if dataset else None
    except NotFound:
        version = None
    if version is not None:
        return version
    if dataset is not None and dataset.current_version_id is not None:
        message = f"The dataset '{reference}' has no version {reference.version} (any more)."
        raise BadInput(message, [Detail(field, message, "unknown-version")])
    if dataset is not None or _has_job(session, project, reference):
        message = f"The dataset '{reference}' was not published yet: run its job first."
        raise BadInput(message, [Detail(field, message, "unpublished-dataset")])
    message = f"There is no dataset '{name[:200]}'. {_suggest_tables(datasets, reference)}"
    raise BadInput(message, [Detail(field, message, "unknown-dataset")])


def _find_dataset(
    session: Session, project: Project, reference: DatasetReference, written: str, field: str
) -> Dataset | None:
    """Return the dataset that a reference means, published or not; raise BadInput for one that several may mean."""
    organization_id = project.organization_id
    if not is_storable(written):
        return None
    if reference.path is not None:
        version = DatasetRepository(session, organization_id).find_at(reference.path)
        return session.get(Dataset, version.dataset_id) if version else None
    query = select(Dataset.id, Dataset.schema_slug, Dataset.slug).where(Dataset.organization_id == organization_id)
    found = [_DatasetName(*row) for row in session.execute(query.where(Dataset.slug == reference.name))]
    chosen = choose_table(reference.name, reference.schema, project.slug, found)
    if chosen is not None:
        return session.get(Dataset, chosen.dataset_id)
    if reference.schema is None and len(found) > 1:
        listed = ", ".join(sorted(map(str, found)))
        message = f"Several datasets are called '{reference}': write one of {listed}."
        raise BadInput(message, [Detail(field, message, "ambiguous-dataset")])
    return None


def _has_job(session: Session, project: Project, reference: DatasetReference) -> bool:
    """Return whether a job of the organization will publish the table of that name."""
    schema, name = reference.schema or project.slug, reference.name
    if reference.path is not None:
        schema, _, name = reference.path.removeprefix(SCHEME).partition("/")
    if not (is_storable(schema) and is_storable(name)):
        return False
    query = select(Job.id).join(Project, Project.id == Job.project_id)
    query = query.where(Project.organization_id == project.organization_id, Project.slug == schema, Job.slug == name)
    return session.scalar(query) is not None


def _suggest_tables(datasets: DatasetRepository, reference: DatasetReference) -> str:
    """Return a sentence with the names of datasets that resemble one without a dataset."""
    known = [each.dataset for each in datasets.list(limit=1000)]
    names = [name for each in known for name in (f"{each.schema_slug}.{each.slug}", each.slug)]
    similar = suggest(str(reference), names)
    return f"Did you mean {' or '.join(similar)}?" if similar else "Name one as project.job, or by its spindle:// path."


def _suggest_paths(datasets: DatasetRepository, path: str) -> str:
    """Return a sentence with the paths of datasets that resemble one without a dataset."""
    similar = suggest(path, [address for each in datasets.list(limit=1000) if (address := get_address(each.dataset))])
    return f"Did you mean {' or '.join(similar)}?" if similar else f"Datasets are at {SCHEME}PROJECT/TABLE."


def _freeze(version: DatasetVersion) -> FrozenInput:
    columns = ((each["name"], each["type"]) for each in version.columns)
    return FrozenInput(
        dataset=version.dataset_id,
        version=version.id,
        number=version.number,
        format=version.format,
        locations=tuple(version.locations),
        snapshot=version.snapshot,
        columns=tuple(columns) if version.partition_by or version.snapshot else (),
        partition_by=tuple(version.partition_by),
    )


def narrow_inputs(session: Session, execution: Execution, inputs: Mapping[str, FrozenInput]) -> dict[str, FrozenInput]:
    """Return the inputs of an execution, of datasets with the partitions of its job only the same partition.

    Raises Conflict for a dataset that has not got it yet. The job's own table is read as a whole.
    """
    narrowed = dict(inputs)
    if execution.partition is None:
        return narrowed
    for key, read in inputs.items():
        version = session.get(DatasetVersion, read.version) if read.is_published else None
        dataset = session.get(Dataset, version.dataset_id) if version else None
        if version is None or dataset is None or dataset.job_id == execution.job_id:
            continue
        if version.partition_scheme == execution.partition_scheme:
            part = version.partitions.get(execution.partition)
            if part is None:
                sentence = (
                    f"'{get_input_name(key)}' has no partition '{execution.partition}' yet: execute its job first."
                )
                raise Conflict(sentence, code="partition-missing")
            if read.snapshot is None:
                narrowed[key] = replace(read, locations=(part.location,))
            else:
                columns = make_partition_columns(execution.partition, execution.partition_scheme)
                narrowed[key] = replace(read, partition=tuple(columns.items()))
    return narrowed


def check_inputs(session: Session, execution: Execution) -> None:
    """Raise Conflict when a version that was frozen for the execution has been removed since it ended."""
    versions = {read.version for read in execution.inputs.values()}
    query = select(DatasetVersion.id).join(Dataset, Dataset.id == DatasetVersion.dataset_id)
    query = query.where(Dataset.organization_id == execution.organization_id, DatasetVersion.id.in_(versions))
    kept = set(session.scalars(query)) if versions else set[str]()
    for key, read in execution.inputs.items():
        if read.is_published and read.version not in kept:
            sentence = f"Version {read.number} of '{get_input_name(key)}' was removed. Execute the job anew."
            raise Conflict(sentence, code="unknown-version")


def record_reads(session: Session, execution: Execution) -> None:
    """Store which datasets a new execution reads, for their lineage; a deleted dataset has no lineage."""
    versions = {(read.dataset, read.version) for read in execution.inputs.values()}
    query = select(Dataset.id).where(Dataset.id.in_({dataset_id for dataset_id, _ in versions}))
    known = set(session.scalars(query)) if versions else set[str]()
    for dataset_id, version_id in sorted(versions):
        if dataset_id in known:
            session.add(DatasetRead(execution_id=execution.id, dataset_id=dataset_id, version_id=version_id))


def _list_reads(step: Step) -> Iterator[str]:
    """Yield the paths in the organization's storage that a step loads or appends to."""
    paths = step.stage.list_inputs() if step.stage else ()
    yield from (path for path in paths if not is_local(path))


def is_local(path: str) -> bool:
    """Return whether the path is left to the driver: a folder of the machine, or another storage."""
    return ("://" in path and not path.startswith(SCHEME)) or path.startswith(("/", "~"))


def _make_outside(project: Project, path: str, field: str) -> BadInput:
    message = (
        f"The path '{path[:200]}' lies outside of the organization's storage. "
        f"Write to spindle://{project.slug}/<name>, or leave the path out."
    )
    return BadInput(message, [Detail(field, message, "path-outside-storage")])
