"""The tags of a Dagster run, by which the UI finds an execution's run, and people the execution."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from core.lifecycle.outlines.outlines import JobOutline
from core.tables import Execution
from orchestration.partitions import build_partition_tags

HIDDEN = ".dagster/"  # the UI does not show tags that begin with it
EXECUTION, ATTEMPT = "spindle/execution", f"{HIDDEN}spindle/attempt"
INSTANCE = f"{HIDDEN}spindle/instance"  # whose launcher executes the run


def build_run_tags(outline: JobOutline, execution: Execution, is_single: bool = True) -> dict[str, str]:
    """Return the tags of a run that executes this attempt; in a run of several assets they name only the execution."""
    tags = {get_execution_tag(outline, is_single): execution.id}
    if not is_single:
        return tags
    return tags | {
        ATTEMPT: str(execution.attempt),
        **dict(outline.tags),
        **build_asset_tags([outline.key]),
        **build_partition_tags(execution.partition, outline.partitions),
        **_build_schedule_tags(outline, execution),
    }


def build_asset_tags(keys: Iterable[Sequence[str]]) -> dict[str, str]:
    """Return the tags of a run of these assets: the project and the job, where there is only one."""
    named = [(key[-2], key[-1]) for key in keys]
    tags = {"spindle/project": {project for project, _ in named}, "spindle/job": {job for _, job in named}}
    return {tag: value for tag, values in tags.items() if len(values) == 1 for value in values}


def get_schedule_name(outline: JobOutline, execution: Execution) -> str:
    """Return the name in Dagster of the schedule of the job's project that made the execution."""
    return "__".join(filter(None, (*outline.key[:-1], execution.schedule_name)))


def _build_schedule_tags(outline: JobOutline, execution: Execution) -> dict[str, str]:
    """Return the tags by which the UI lists the runs of a schedule."""
    if execution.trigger != "schedule" or execution.tick_at is None:
        return {}
    return {
        "dagster/schedule_name": (name := get_schedule_name(outline, execution)),
        "dagster/scheduled_execution_time": execution.tick_at.isoformat(),
        "dagster/run_key": f"{name}:{execution.tick_at.isoformat()}:{outline.job_id}",
    }


def get_execution_tag(outline: JobOutline, is_single: bool) -> str:
    """Return the tag that holds the execution's id: in a run of several assets, one per job."""
    return EXECUTION if is_single else f"{HIDDEN}{EXECUTION}.{outline.slug[:20]}.{outline.job_id[-12:]}"
