"""The Python environments of an execution: packages for its row functions, and uploaded plugins for its driver."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from shutil import copyfileobj

from core.definitions.agents.package_locks import open_environments
from core.infra.settings import Settings
from core.infra.storage import open_storage
from core.infra.storage.protocol import NotStored, plugin_key
from core.tables import Execution
from core.tables.executions import FrozenPlugin
from pipelines.environments.uv import InstallFailed


@dataclass(frozen=True, slots=True)
class DriverEnvironments:
    """The folders that an execution's row functions and its driver import from."""

    packages: Path | None = None
    plugins: tuple[Path, ...] = ()


class EnvironmentFailed(Exception):
    """An environment cannot be made; the message is a sentence for the execution."""


def needs_environments(execution: Execution) -> bool:
    return execution.package_lock is not None or bool(execution.plugins)


def install_environments(settings: Settings, execution: Execution, installed: Future[DriverEnvironments]) -> None:
    """Install what is missing, as the work of a thread; `installed` has the result.

    That is EnvironmentFailed where uv refuses, IndexUnavailable where the index is out of reach.
    """
    try:
        installed.set_result(_install(settings, execution))
    except BaseException as error:  # raised again by the thread that waits
        installed.set_exception(error)


def _install(settings: Settings, execution: Execution) -> DriverEnvironments:
    store, packages, plugins = open_environments(settings), None, list[Path]()
    if execution.package_lock is not None:
        try:
            packages = store.install_lock(execution.package_lock)
        except InstallFailed as error:
            raise EnvironmentFailed(f"The packages of the row functions cannot be installed: {error.reason}") from error
    for plugin in execution.plugins:
        try:
            plugins.append(store.install_wheel(plugin.digest, plugin.file_name, _open_wheel(settings, plugin)))
        except InstallFailed as error:
            reason = error.reason.replace(str(store.root), "")
            raise EnvironmentFailed(f"The plugin {plugin.plugin_id} cannot be installed: {reason}") from error
        except NotStored as error:
            sentence = f"The file of the plugin {plugin.plugin_id} is missing in the storage. Upload it again."
            raise EnvironmentFailed(sentence) from error
    return DriverEnvironments(packages, tuple(plugins))


def _open_wheel(settings: Settings, plugin: FrozenPlugin) -> Callable[[Path], None]:
    """Return a function that copies the plugin's wheel from the storage to a path."""

    def copy(path: Path) -> None:
        stored = open_storage(settings).open(plugin_key(plugin.digest, plugin.file_name))
        with stored as source, path.open("wb") as file:
            copyfileobj(source, file)

    return copy
