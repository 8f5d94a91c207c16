"""Splitting the run of a selection of assets into one run for every part that reads no other part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import uuid4

from dagster import AssetKey, DagsterInstance, DagsterRun

from core.errors import NotFound
from core.infra.database import open_database
from core.infra.settings import Settings
from core.lifecycle.outlines.outlines import JobOutline
from orchestration.assets import get_graph_name
from orchestration.dagster_run_internals import create_run
from orchestration.run_tags import build_asset_tags
from orchestration.runs import CODE, build_run_job, load_run_outlines, locate_code_server


def split_run(instance: DagsterInstance, run: DagsterRun) -> Iterator[DagsterRun]:
    """Yield a new run for every independent part of a run that has not started, and delete that one.

    Yields the run itself where all of its assets belong together, or a job was deleted.
    """
    try:
        with closing(open_database(Settings(), connections=1)) as database, database.read() as session:
            outlines = load_run_outlines(session, run)
    except NotFound:  # the run fails with this sentence
        outlines = []
    parts = group_by_inputs(outlines)
    if len(parts) < 2 or run.parent_run_id is not None:
        instance.add_run_tags(run.run_id, build_asset_tags([each.key for each in outlines]))
        yield run
        return
    repository = locate_code_server(Path(instance.root_directory))
    for part in parts:
        yield create_run(
            instance,
            build_run_job(part),
            str(uuid4()),
            config=_select_config(run, part),
            tags={**run.tags, **build_asset_tags([each.key for each in part])},
            assets={AssetKey(each.key) for each in part},
            repository=repository,
            module=CODE,
        )
    instance.delete_run(run.run_id)


def group_by_inputs(outlines: Sequence[JobOutline]) -> Sequence[Sequence[JobOutline]]:
    """Return the groups of jobs that are connected by the outputs that they read."""
    groups: list[list[JobOutline]] = []
    for outline in outlines:
        linked = [group for group in groups if any(_is_input(outline, each) for each in group)]
        groups = [group for group in groups if group not in linked]
        groups.append([*(each for group in linked for each in group), outline])
    return groups


def _is_input(first: JobOutline, second: JobOutline) -> bool:
    return first.key in second.inputs or second.key in first.inputs


def _select_config(run: DagsterRun, part: Sequence[JobOutline]) -> dict[str, Any]:
    """Return the launchpad's configuration without that of other assets."""
    names = {get_graph_name(outline.key) for outline in part}
    config: dict[str, Any] = {**run.run_config}
    return config | {"ops": {name: ops for name, ops in config.get("ops", {}).items() if name in names}}
