"""The packages of agents' row functions: allowed by the operator, and locked before an agent is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlalchemy import select
from sqlalchemy.orm import Session

from core.definitions.agents.validation import CheckedTexts, describe_problems
from core.definitions.identity.organizations import is_shared
from core.errors import Conflict, Unavailable
from core.infra.database import Database
from core.infra.settings import Settings
from core.tables import Agent, Execution
from pipelines.environments.folders import EnvironmentStore
from pipelines.environments.packages import (
    PackageRefused,
    find_lock,
    get_name,
    index_locks,
    is_allowed,
    list_locked,
    lock_packages,
)
from pipelines.environments.uv import IndexUnavailable
from pipelines.errors import PipelineError
from pipelines.pipeline import Pipeline

FOLDER = "packages"  # in the data folder
ALL, NONE = ("*",), ()


def open_environments(settings: Settings) -> EnvironmentStore:
    """Return the environments of an instance, which all its jobs share."""
    index = settings.package_index.get_secret_value() if settings.package_index else None
    return EnvironmentStore.open(settings.data / FOLDER, index)


def lock_packages_of(database: Database, settings: Settings, organization_id: str, texts: CheckedTexts) -> CheckedTexts:
    """Return the texts with the locks of the packages that their pipelines name.

    Called before a transaction: the index may take 20 s. Packages that another agent of the organization has keep
    their lock. Raise BadInput with the line of a package that cannot be had, Unavailable where the index does not
    answer.
    """
    wanted = {outline.packages: text for text, outline in texts.pipelines.items() if outline.packages}
    if not wanted:
        return texts
    with database.read() as session:
        for text in wanted.values():
            check_allowed(session, settings, text)
        known = _load_locks(session, organization_id)
    locks = {packages: find_lock(packages, known) or _lock(settings, text) for packages, text in wanted.items()}
    return replace(texts, locks=locks)


def check_execution(session: Session, settings: Settings, execution: Execution) -> None:
    """Raise BadInput for packages that are not allowed, Conflict where Python names others than are locked."""
    locked = list_locked(execution.package_lock) if execution.package_lock else ()
    if Pipeline.from_yaml(execution.pipeline_yaml).packages != locked:
        sentence = "The agent's Python names other packages now than when it was written. Name the same ones each time."
        raise Conflict(sentence, code="packages-changed", path="spindle.packages")
    if locked:
        check_allowed(session, settings, execution.pipeline_yaml)


def check_allowed(session: Session, settings: Settings, text: str) -> None:
    """Raise BadInput with the lines of packages that the operator's list does not have."""
    pipeline = Pipeline.from_yaml(text)
    allowed = settings.packages
    if allowed is None:
        allowed = NONE if is_shared(session) else ALL
    refused = [each for each in pipeline.packages if not is_allowed(each, allowed)]
    if refused:
        reason = "is not among the packages that the operator allows with SPINDLE_PACKAGES"
        raise describe_problems(
            PipelineError(
                pipeline.locate_package_problem(get_name(each), "package-not-allowed", f"{each} {reason}")
                for each in refused
            )
        )


def _lock(settings: Settings, text: str) -> str:
    pipeline = Pipeline.from_yaml(text)
    try:
        return lock_packages(pipeline.packages, open_environments(settings).index)
    except PackageRefused as error:
        problem = pipeline.locate_package_problem(error.name, error.code, error.message)
        raise describe_problems(PipelineError([problem])) from error
    except IndexUnavailable as error:
        raise Unavailable(str(error), code="index-unavailable", path="spindle.packages") from error


def _load_locks(session: Session, organization_id: str) -> Mapping[str, str]:
    """Return the locks of the organization's agents by their first lines."""
    own = select(Agent.package_lock).where(Agent.organization_id == organization_id)
    locks: Sequence[str | None] = session.scalars(own.where(Agent.package_lock.is_not(None))).all()
    return index_locks([each for each in locks if each is not None])
