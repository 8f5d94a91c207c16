"""Definitions made of outlines; only changed ones are built again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import structlog
from dagster import AssetKey, AssetsDefinition, AssetSpec, Definitions, ScheduleDefinition
from sqlalchemy.orm import Session

from core.definitions.cron_jobs.outlines import CronJobOutline, load_cron_job_outlines
from core.definitions.jobs.partitions import Partitions
from core.definitions.schedules.outlines import ScheduleOutline, load_schedules
from core.lifecycle.outlines.outlines import JobOutline, OutlineLoader
from orchestration.asset_specs import build_source
from orchestration.assets import NO_DRIVERS, build_definitions, build_job_asset, name_project_job
from orchestration.collection import pause_collection
from orchestration.cron_jobs import build_cron_job_schedule
from orchestration.dagster_internals import ASSET_JOB
from orchestration.schedules import Target, build_schedule

log = structlog.get_logger()

Asset = AssetsDefinition | AssetSpec
Built = dict[Hashable, tuple[Any, Any]]  # outlines and their definitions, by their keys or ids
UNBUILDABLE = "Dagster cannot show this job: {error}"
INCONSISTENT = "Dagster could not load the assets of all jobs together; the log of the service has the error."


@dataclass(frozen=True, slots=True)
class Outlines:
    """The outlines of all definitions."""

    jobs: Sequence[JobOutline] = ()
    schedules: Sequence[ScheduleOutline] = ()
    cron_jobs: Sequence[CronJobOutline] = ()


def load_outlines(session: Session, loader: OutlineLoader) -> Outlines:
    return Outlines(loader.load(session), load_schedules(session), load_cron_job_outlines(session))


class DefinitionsBuilder:
    """Builds assets and schedules and keeps them; a job that cannot be built is shown with the reason."""

    def __init__(self) -> None:
        self._outlines: Outlines | None = None
        self._built: Built = {}

    def has_changed(self, outlines: Outlines) -> bool:
        return outlines != self._outlines

    @pause_collection()
    def build(self, outlines: Outlines) -> Definitions:
        """Return definitions that are loaded completely."""
        before, self._built = self._built, {}
        assets = [self._get(before, each.key, each, build_asset) for each in outlines.jobs]
        sources = {source.key: source for each in outlines.jobs for source in each.sources}
        assets += [self._get(before, key, sources[key], build_source) for key in sorted(sources)]
        projects: dict[str, list[JobOutline]] = defaultdict(list)
        for outline, asset in zip(outlines.jobs, assets, strict=False):
            if isinstance(asset, AssetsDefinition):
                projects[outline.project_id].append(outline)
        scheduled = [(each, _find_target(each, projects[each.project_id])) for each in outlines.schedules]
        timed = [
            *(self._get(before, each[0].schedule_id, each, _build_schedule) for each in scheduled),
            *(self._get(before, each.cron_job_id, each, _build_cron_job) for each in outlines.cron_jobs),
        ]
        schedules = [each for each in timed if each is not None]
        self._outlines = outlines
        try:
            return _load(assets, schedules)
        except Exception as error:
            log.error("the definitions cannot be loaded together", error=str(error))
            return _load([_build_bare_asset(outline, INCONSISTENT) for outline in outlines.jobs], ())

    def _get(self, before: Built, key: Hashable, outline: Any, build: Callable[[Any], Any]) -> Any:
        """Return the definition of an equal outline from the cache, or build it."""
        known = before.get(key)
        self._built[key] = known if known is not None and known[0] == outline else (outline, build(outline))
        return self._built[key][1]


def build_asset(outline: JobOutline) -> Asset:
    try:
        return build_job_asset(outline)
    except Exception as error:
        log.error("the asset of a job cannot be built", job_id=outline.job_id, error=str(error))
        return _build_bare_asset(outline, UNBUILDABLE.format(error=error))


def _find_target(outline: ScheduleOutline, jobs: Sequence[JobOutline]) -> Target:
    """Return the job of the schedule's project, or the assets that it executes where some have partitions.

    `jobs` are those of the project that can be executed; without any it is the job of all assets. Dagster shows
    assets with one kind of partitions together, so that those with another are left out.
    """
    executed = [each for each in jobs if outline.job_id in (None, each.job_id)]
    if kinds := [each.partitions for each in executed if each.partitions]:
        return tuple(AssetKey(each.key) for each in executed if each.partitions in (Partitions(), kinds[0]))
    return name_project_job(outline.group) if any(not each.partitions for each in jobs) else ASSET_JOB


def _build_schedule(scheduled: tuple[ScheduleOutline, Target]) -> ScheduleDefinition | None:
    outline, target = scheduled
    try:
        return build_schedule(outline, target)
    except Exception as error:
        log.error("a schedule cannot be built", schedule_id=outline.schedule_id, error=str(error))
        return None


def _build_cron_job(outline: CronJobOutline) -> ScheduleDefinition | None:
    try:
        return build_cron_job_schedule(outline)
    except Exception as error:
        log.error("the schedule of a cron job cannot be built", cron_job_id=outline.cron_job_id, error=str(error))
        return None


def _build_bare_asset(outline: JobOutline, reason: str) -> AssetSpec:
    """Return an asset with nothing in it that could be wrong."""
    return AssetSpec(AssetKey(outline.key), description=reason)


def _load(assets: Sequence[Asset], schedules: Sequence[ScheduleDefinition]) -> Definitions:
    definitions = build_definitions(assets, NO_DRIVERS, schedules)
    definitions.get_repository_def().load_all_definitions()
    return definitions
