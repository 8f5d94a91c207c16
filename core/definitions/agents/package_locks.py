"""The packages of agents' functions and Python: allowed by the operator, and locked before an agent is written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sqlalchemy import select
from sqlalchemy.orm import Session

from core.definitions.agents.validation import describe_problems
from core.definitions.identity.organizations import is_shared
from core.errors import Conflict, Unavailable
from core.infra.database import Database
from core.infra.environments import open_environments
from core.infra.settings import Settings
from core.infra.settings.pipelines import PluginSettings
from core.tables import Agent, Execution
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
from pipelines.errors import PipelineError, Problem
from pipelines.language.plugin_scope import ANY_PLUGINS
from pipelines.pipeline import Pipeline

ALL, NONE = ("*",), ()


class NamedPackages(Protocol):
    """The packages that a pipeline or a Python code names."""

    @property
    def packages(self) -> tuple[str, ...]: ...

    def locate_package_problem(self, name: str | None, code: str, message: str) -> Problem: ...


class PackageLocker:
    """Locks the packages of an organization's new texts; those that another agent of it names keep their lock.

    Used before a transaction: the index may take 20 s.
    """

    def __init__(self, database: Database, settings: Settings, organization_id: str) -> None:
        self._database = database
        self._settings = settings
        self._organization_id = organization_id
        self._made: list[str] = []

    def lock(self, named: NamedPackages) -> str:
        """Return the lock of packages.

        Raise BadInput with the line of one that cannot be had, Unavailable where the index does not answer.
        """
        with self._database.read() as session:
            check_allowed(session, self._settings.plugins, named)
            own = select(Agent.package_lock).where(Agent.organization_id == self._organization_id)
            locks: Sequence[str | None] = session.scalars(own.where(Agent.package_lock.is_not(None))).all()
            known = [each for each in locks if each is not None]
        lock = find_lock(named.packages, index_locks([*known, *self._made]))
        if lock is None:
            lock = _make_lock(self._settings, named)
            self._made.append(lock)
        return lock


def check_execution(session: Session, settings: Settings, execution: Execution) -> None:
    """Raise BadInput for packages that are not allowed, Conflict where Python names others than are locked."""
    locked = list_locked(execution.package_lock) if execution.package_lock else ()
    pipeline = Pipeline.from_yaml(execution.pipeline_yaml, ANY_PLUGINS)
    if pipeline.packages != locked:
        sentence = "The agent's Python names other packages now than when it was written. Name the same ones each time."
        raise Conflict(sentence, code="packages-changed", path="spindle.packages")
    check_allowed(session, settings.plugins, pipeline)


def check_allowed(session: Session, settings: PluginSettings, named: NamedPackages) -> None:
    """Raise BadInput with the lines of packages that the operator's list does not have."""
    if not named.packages:
        return
    allowed = settings.packages
    if allowed is None:
        allowed = NONE if is_shared(session) else ALL
    refused = [each for each in named.packages if not is_allowed(each, allowed)]
    if refused:
        reason = "is not among the packages that the operator allows with SPINDLE_PACKAGES"
        raise describe_problems(
            PipelineError(
                named.locate_package_problem(get_name(each), "package-not-allowed", f"{each} {reason}")
                for each in refused
            )
        )


def _make_lock(settings: Settings, named: NamedPackages) -> str:
    try:
        return lock_packages(named.packages, open_environments(settings).index)
    except PackageRefused as error:
        problem = named.locate_package_problem(error.name, error.code, error.message)
        raise describe_problems(PipelineError([problem])) from error
    except IndexUnavailable as error:
        raise Unavailable(str(error), code="index-unavailable", path="spindle.packages") from error
