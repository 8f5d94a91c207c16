"""The driver's input for one attempt of an execution: the spec and, separately, the secrets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from core.definitions.credentials.providers import list_public_variables
from core.definitions.credentials.repository import decrypt_environment
from core.definitions.identity.organizations import get_organization, is_shared
from core.definitions.jobs.partitions import make_partition_columns
from core.definitions.projects.models import read_model_options
from core.infra.encryption import KeyRing
from core.infra.secrets import load_service_key
from core.infra.settings import Settings
from core.infra.settings.pipelines import ModelSettings
from core.infra.settings.storage import FileSettings
from core.infra.storage import is_bucket, load_storage_secrets
from core.infra.storage.protocol import (
    Storage,
    event_log_key,
    failures_key,
    files_key,
    kept_files_key,
    known_pages_key,
    list_used_pages,
    output_key,
    pages_key,
    saves_key,
    scratch_key,
    selectors_key,
    used_pages_key,
)
from core.lifecycle.executions.attempts import list_checkpoint_folders
from core.lifecycle.executions.outputs import load_targets
from core.lifecycle.executions.permissions import check_permissions
from core.lifecycle.executions.pod_options import apply_pods, find_pods
from core.lifecycle.executions.repository import select_comparable
from core.lifecycle.executions.tokens import execution_token
from core.tables import Execution, Project, now
from core.tables.states import State
from pipelines.contract.request import (
    CheckpointFolders,
    FetchSpec,
    Figures,
    Files,
    OutputSpec,
    PageCacheSpec,
    PodsSpec,
    RunRequest,
    SparkSpec,
    Target,
    WebhookSpec,
)
from pipelines.filesystem import has_address
from pipelines.language.engines import EngineName
from pipelines.language.formats import FORMATS, list_format_libraries
from pipelines.models.budget import Allowance
from pipelines.models.options import ModelOptions
from pipelines.page_cache.options import Replay
from pipelines.planning.past import MOST
from pipelines.spark.cluster import is_local_master

SECONDS_PER_DAY = 86400
NEWEST = 200  # executions, whose formats spare drivers are prepared for
S3 = "s3"  # the Java library
_COMPARING = ("maxDrop", "maxRise")


@dataclass(frozen=True, slots=True)
class LaunchContext:
    """The contents of the records around an execution when one of its attempts is launched.

    Where organizations share the service, users' Python runs isolated or not at all. `targets` are the datasets that it
    writes, `local_folders` those of this machine that it may read and write, and `past` the figures of earlier
    executions. `model` is the language model of a pipeline that names none, and `allowance` the rest of the
    organization's budget of the day. `pods` are the choices of the project or the job for its pods.
    """

    is_shared: bool = True
    targets: Mapping[str, Target] = field(default_factory=dict[str, Target])
    local_folders: Sequence[str] = ()
    past: tuple[Figures, ...] = ()
    model: ModelOptions | None = None
    allowance: Allowance | None = None
    pods: PodsSpec = field(default_factory=PodsSpec)


@dataclass(frozen=True, slots=True)
class DriverEnvironments:
    """The folders that an execution's row functions and its driver import from.

    Those of a build of the engine come before the service's own.
    """

    packages: Path | None = None
    plugins: tuple[Path, ...] = ()
    engine: tuple[Path, ...] = ()


def load_launch_context(session: Session, settings: Settings, storage: Storage, execution: Execution) -> LaunchContext:
    """Return the data of the database about the launch of an attempt, besides the execution's own row.

    Raises Conflict or BadInput for what the operator does not allow any more.
    """
    check_permissions(session, settings, execution)
    return LaunchContext(
        is_shared=is_shared(session),
        targets=load_targets(session, storage, execution),
        local_folders=list_local_folders(session, settings.files, execution.organization_id),
        past=list_past_figures(session, execution),
        model=find_model(session, settings.model, execution.project_id),
        allowance=find_allowance(session, settings.model, execution.organization_id),
        pods=find_pods(session, settings, execution),
    )


def build_spec(
    settings: Settings,
    storage: Storage,
    execution: Execution,
    launch: LaunchContext = LaunchContext(),
    environments: DriverEnvironments = DriverEnvironments(),
) -> RunRequest:
    """Return the request of the execution's current attempt."""
    return RunRequest(
        execution_id=execution.id,
        job_id=execution.job_id,
        project_id=execution.project_id,
        organization_id=execution.organization_id,
        job_name=execution.job_name,
        attempt=execution.attempt,
        pipeline_yaml=execution.pipeline_yaml,
        parameters=execution.parameters,
        steps=tuple(execution.steps),
        arguments=tuple(execution.arguments),
        row_transforms=execution.row_transforms,
        isolate_transforms=launch.is_shared,
        packages=str(environments.packages.resolve()) if environments.packages else None,
        plugins=tuple(str(each.resolve()) for each in environments.plugins),
        engine_folders=tuple(str(each.resolve()) for each in environments.engine),
        credentials=execution.credentials,
        public_variables=tuple(sorted(list_public_variables() & execution.credentials.keys())),
        limit=execution.row_limit,
        publishes=execution.publishes,
        partition=make_partition_columns(execution.partition, execution.partition_scheme),
        accepted_at=execution.created_at,
        past=launch.past,
        output=_locate_output(settings.files, storage, execution),
        checkpoints=_locate_checkpoints(storage, execution),
        inputs=_locate_inputs(storage, execution),
        targets=dict(launch.targets),
        local_folders=tuple(launch.local_folders),
        webhook=_build_webhook(settings, execution),
        heartbeat_seconds=settings.executions.heartbeat_seconds,
        fetch=_build_fetch_spec(settings),
        pages=_build_page_cache(settings.files, storage, execution),
        selectors=storage.url_for(selectors_key(execution.organization_id), "spark"),
        model=launch.model,
        allowance=launch.allowance,
        engine=EngineName(execution.engine),
        begins_with_spark=execution.spark_reason is not None,
        memory_bytes=int(settings.drivers.local_driver_gigabytes * 1e9)
        if settings.drivers.local_driver_gigabytes
        else None,
        reuses_driver=settings.drivers.reuse and execution.driver_reuse,
        scratch=_find_scratch(settings, storage, execution),
        event_log=storage.url_for(event_log_key(execution.id, execution.attempt), "spark")
        if settings.spark.event_log
        else None,
        pods=launch.pods,
        spark=build_spark_spec(apply_pods(settings, launch.pods), {*execution.libraries, *find_libraries(execution)}),
    )


def _locate_output(settings: FileSettings, storage: Storage, execution: Execution) -> OutputSpec:
    """Return the folders that the attempt writes to: its own, and those of the execution or the organization."""
    attempt = (execution.organization_id, execution.id, execution.attempt)
    known_pages = known_pages_key(execution.organization_id, execution.job_id, execution.id, execution.attempt)
    return OutputSpec(
        path=storage.url_for(output_key(*attempt), "spark"),
        saves=storage.url_for(saves_key(*attempt), "spark"),
        files=storage.url_for(files_key(execution.organization_id, execution.id), "spark"),
        kept=storage.url_for(kept_files_key(execution.organization_id), "spark"),
        kept_bytes=int(settings.kept_file_gigabytes * 1e9),
        failures=storage.url_for(failures_key(*attempt), "spark"),
        known_pages=storage.url_for(known_pages, "spark") if execution.publishes else None,
    )


def _locate_checkpoints(storage: Storage, execution: Execution) -> CheckpointFolders:
    """Return the folder for checkpoints of this attempt, and those of earlier ones."""
    own, *earlier = [storage.url_for(key, "spark") for key in list_checkpoint_folders(execution)]
    return CheckpointFolders(folder=own, earlier=tuple(earlier))


def _locate_inputs(storage: Storage, execution: Execution) -> dict[str, Files]:
    """Return the datasets to read by their paths in the pipeline, each in the version that acceptance has fixed."""
    return {
        path: Files(
            paths=tuple(storage.url_for(key, "spark") for key in read.locations),
            format=read.format,
            version=read.number or None,
            snapshot=read.snapshot,
            columns=read.columns,
            partition_by=read.partition_by,
            partition=read.partition,
        )
        for path, read in execution.inputs.items()
    }


def _build_webhook(settings: Settings, execution: Execution) -> WebhookSpec:
    completion = f"projects/id/{execution.project_id}/jobs/{execution.job_id}/completion"
    return WebhookSpec(url=f"{settings.api.service_url}/{completion}")


def _build_fetch_spec(settings: Settings) -> FetchSpec:
    return FetchSpec(
        allow_networks=settings.fetch.allow_networks,
        own_endpoints=settings.own_endpoints,
        contact=settings.fetch.contact,
    )


def _build_page_cache(settings: FileSettings, storage: Storage, execution: Execution) -> PageCacheSpec:
    """Return the organization's page cache, in which pages stored since the acceptance are the execution's own."""
    return PageCacheSpec(
        folder=storage.url_for(pages_key(execution.organization_id), "spark"),
        keep_seconds=settings.page_kept_days * SECONDS_PER_DAY,
        max_bytes=int(settings.page_gigabytes * 1e9),
        trusted_since=execution.began_at or execution.created_at,
        used=storage.url_for(used_pages_key(execution.organization_id, execution.id, execution.attempt), "spark"),
        replay=_build_replay(storage, execution),
    )


def _build_replay(storage: Storage, execution: Execution) -> Replay | None:
    """Return the pages of the earlier execution that this one runs over."""
    if (pages := execution.pages_of) is None:
        return None
    folders = list_used_pages(execution.organization_id, pages.execution_id, pages.attempts)
    return Replay(pages.execution_id, tuple(storage.url_for(key, "spark") for key in folders), pages.until)


def list_local_folders(session: Session, settings: FileSettings, organization_id: str) -> list[str]:
    """Return the local folders of an organization: with several organizations, a subfolder of every setting."""
    if not is_shared(session):
        return list(settings.local_folders)
    slug = get_organization(session, organization_id).slug
    return [f"{folder.rstrip('/')}/{slug}" for folder in settings.local_folders]


def find_model(session: Session, settings: ModelSettings, project_id: str) -> ModelOptions | None:
    """Return the language model of a project's pipelines that name none: the project's own, else the settings'."""
    parameters = session.scalar(select(Project.parameters).where(Project.id == project_id)) or {}
    if (own := read_model_options(parameters)) is not None:
        return own
    names = ModelOptions.model_fields
    return ModelOptions.model_validate({name: getattr(settings, name) for name in names})


def _find_scratch(settings: Settings, storage: Storage, execution: Execution) -> str | None:
    """Return the folder for files that tasks on other machines share; None when all tasks run on this machine."""
    if is_local_master(settings.spark.master) or not is_bucket(settings.storage):
        return None
    return storage.url_for(scratch_key(execution.organization_id, execution.id, execution.attempt), "spark")


def build_spark_spec(settings: Settings, libraries: Iterable[str] = ()) -> SparkSpec:
    """Return master and settings of a session with these Java libraries."""
    conf = {"spark.driver.memory": settings.spark.driver_memory}
    if settings.spark.event_log:
        conf["spark.eventLog.enabled"] = "true"
    if not is_local_master(settings.spark.master):
        conf["spark.executor.memory"] = settings.spark.executor_memory
        if settings.spark.max_cores is not None:
            conf["spark.cores.max"] = str(settings.spark.max_cores)
    needed = {*libraries, *([S3] if is_bucket(settings.storage) else ())}
    return SparkSpec(master=settings.spark.master, conf=conf, libraries=tuple(sorted(needed)))


def load_used_libraries(session: Session) -> set[str]:
    """Return the Java libraries of formats that the newest executions have needed, of all organizations."""
    newest = select(Execution.libraries).order_by(Execution.id.desc()).limit(NEWEST)
    formats = {library for format_ in FORMATS for library in list_format_libraries(format_)}
    return {name for names in session.scalars(newest) for name in names} & formats


def find_libraries(execution: Execution) -> Iterable[str]:
    """Return the Java libraries that an execution needs: that of s3 if its text or a parameter has such an address."""
    texts = (execution.pipeline_yaml, *map(str, execution.parameters.values()))
    return [S3] if any(has_address(text) for text in texts) else []


def load_driver_secrets(settings: Settings, execution: Execution) -> dict[str, str]:
    """Return the environment variables with the driver's secrets; raise Conflict when one cannot be decrypted."""
    return {
        **decrypt_environment(execution, KeyRing(load_service_key(settings))),
        **load_storage_secrets(settings.storage),
        "SPINDLE_EXECUTION_TOKEN": execution_token(settings, execution.id, execution.attempt),
    }


def find_allowance(
    session: Session, settings: ModelSettings, organization_id: str, at: datetime | None = None
) -> Allowance | None:
    """Return the rest of an organization's budget after the executions of the day (UTC); None without a limit.

    Executions that run at the same time may each spend the rest.
    """
    limits = settings.daily_calls, settings.daily_tokens, settings.daily_cost
    if limits == (None, None, None):
        return None
    spent = Execution.progress["model"]
    tokens = spent["tokensIn"].as_integer() + spent["tokensOut"].as_integer()
    midnight = (at or now()).replace(hour=0, minute=0, second=0, microsecond=0)
    sums = select(func.sum(spent["calls"].as_integer()), func.sum(tokens), func.sum(spent["cost"].as_float())).where(
        Execution.organization_id == organization_id, Execution.created_at >= midnight
    )
    calls, tokens_used, cost = session.execute(sums).one()
    return Allowance(
        calls=None if limits[0] is None else max(0, limits[0] - (calls or 0)),
        tokens=None if limits[1] is None else max(0, limits[1] - (tokens_used or 0)),
        cost=None if limits[2] is None else max(0.0, limits[2] - (cost or 0.0)),
    )


def list_past_figures(session: Session, execution: Execution) -> tuple[Figures, ...]:
    """Return the figures of the job's last completed executions, of a partition those of the same values.

    The newest are first; there are none where no check compares. Executions that do not publish, which a limit often
    cuts short, are neither compared nor compared with.
    """
    if not execution.publishes or not any(name in execution.pipeline_yaml for name in _COMPARING):
        return ()
    measured = Execution.metrics["figures"]["rows"].as_integer().is_not(None)
    query = select_comparable(execution).where(Execution.state == State.COMPLETED, measured).limit(MOST)
    found = session.scalars(query.with_only_columns(Execution.metrics))
    return tuple(Figures(**metrics["figures"]) for metrics in found)
