"""The Python environments of an execution: packages for its row functions, uploaded plugins, a build of the engine."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from shutil import copyfileobj

from core.infra.environments import open_environments
from core.infra.settings import Settings
from core.infra.storage import open_storage
from core.infra.storage.protocol import NotStored, library_key, plugin_key
from core.lifecycle.executions.spec import DriverEnvironments
from core.tables import Execution
from core.tables.executions import FrozenBuild
from driver.protocol import describe_mismatch
from pipelines.environments.folders import EnvironmentStore
from pipelines.environments.uv import InstallFailed


class EnvironmentFailed(Exception):
    """An environment cannot be made; the message is a sentence for the execution."""


def needs_environments(execution: Execution) -> bool:
    return execution.package_lock is not None or bool(execution.plugins or execution.engine_build)


def install_environments(settings: Settings, execution: Execution, installed: Future[DriverEnvironments]) -> None:
    """Install missing environments, as the work of a thread; `installed` has the result.

    That is EnvironmentFailed where uv refuses, IndexUnavailable where the index is out of reach.
    """
    try:
        installed.set_result(_install(settings, execution))
    except BaseException as error:  # raised again by the thread that waits
        installed.set_exception(error)


def _install(settings: Settings, execution: Execution) -> DriverEnvironments:
    store, packages = open_environments(settings), None
    if execution.package_lock is not None:
        try:
            packages = store.install_lock(execution.package_lock)
        except InstallFailed as error:
            raise EnvironmentFailed(f"The packages of the row functions cannot be installed: {error.reason}") from error
    wheels = _Wheels(settings, store)
    plugins = [
        folder
        for each in execution.plugins
        for folder in wheels.install(
            f"The plugin {each.plugin_id}", plugin_key(each.digest, each.file_name), each.digest
        )
    ]
    return DriverEnvironments(packages, tuple(plugins), _install_engine(wheels, execution.engine_build))


def _install_engine(wheels: _Wheels, build: FrozenBuild | None) -> tuple[Path, ...]:
    if build is None:
        return ()
    subject = f"Version {build.version} of the engine"
    if reason := describe_mismatch(build.protocol):  # the service was updated since the execution was accepted
        raise EnvironmentFailed(f"{subject} {reason}.")
    return wheels.install(subject, library_key(build.digest, build.file_name), build.digest)


@dataclass(frozen=True, slots=True)
class _Wheels:
    """Installs wheels of the storage."""

    settings: Settings
    store: EnvironmentStore

    def install(self, subject: str, key: str, digest: str) -> tuple[Path, ...]:
        """Return the folders of a wheel and of its requirements; `subject` names it in the sentence of a failure."""

        def copy(path: Path) -> None:
            with open_storage(self.settings.storage).open(key) as source, path.open("wb") as file:
                copyfileobj(source, file)

        try:
            return self.store.install_wheel(digest, key.rpartition("/")[2], copy)
        except InstallFailed as error:
            reason = error.reason.replace(str(self.store.root), "")
            raise EnvironmentFailed(f"{subject} cannot be installed: {reason}") from error
        except NotStored as error:
            sentence = f"{subject} is missing in the storage. Upload its file again."
            raise EnvironmentFailed(sentence) from error
