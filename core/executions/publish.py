"""Publishing an output: a new version of the job's dataset, and one pointer switched to it."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy.orm import Session

from core.datasets.repository import Datasets
from core.executions.payload import CompletionPayload
from core.infra.storage.protocol import output_key
from core.tables import Dataset, DatasetVersion, Execution, Job, Project


def publish(session: Session, execution: Execution, payload: CompletionPayload) -> Dataset | None:
    """Publishes what this attempt wrote to its own folder; an output that lies elsewhere is only recorded.

    The caller has locked the organization, so that two appends never start from the same version.
    """
    key = output_key(execution.organization_id, execution.id, execution.attempt)
    if not (payload.output_dataset_path or "").rstrip("/").endswith(f"/{key}"):
        return None
    datasets = Datasets(session, execution.organization_id)
    job, project = session.get_one(Job, execution.job_id), session.get_one(Project, execution.project_id)
    dataset = datasets.of_job(job, project)
    version = _version(execution, dataset, payload, key, _earlier(datasets, execution, dataset))
    session.add(version)
    session.flush()
    dataset.current_version_id, dataset.logical_path = version.id, execution.output_name
    dataset.format = (payload.output_dataset_format or "parquet").lower()
    job.output_dataset_id = execution.dataset_id = dataset.id
    return dataset


def _earlier(datasets: Datasets, execution: Execution, dataset: Dataset) -> DatasetVersion | None:
    """The version that an append adds to: the newest at its output path, else the job's own."""
    if execution.output_mode != "append":
        return None
    if execution.output_name is None:
        return datasets.current_version(dataset)
    found = datasets.at(execution.output_name)
    return None if found is None else found[1]


def _version(
    execution: Execution, dataset: Dataset, payload: CompletionPayload, key: str, earlier: DatasetVersion | None
) -> DatasetVersion:
    versions: Sequence[DatasetVersion] = () if earlier is None else (earlier,)
    return DatasetVersion(
        dataset_id=dataset.id,
        execution_id=execution.id,
        logical_path=execution.output_name,
        paths=[path for version in versions for path in version.paths] + [key],
        columns=payload.columns(),
        row_count=_sum(payload.records_output, [version.row_count for version in versions]),
        size_bytes=_sum(payload.output_file_size_bytes, [version.size_bytes for version in versions]),
    )


def _sum(added: int | None, earlier: Sequence[int | None]) -> int | None:
    """The total, None where a part of it is unknown."""
    return None if added is None or None in earlier else added + sum(count or 0 for count in earlier)
