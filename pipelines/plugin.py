"""Plugin: what a package adds to Spindle, as the object that its entry point names.

    [project.entry-points."spindle.plugins"]
    weather = "weather:plugin"

The entry point's name is the plugin's. `docs/plugins.md` builds a plugin.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module, resources
from importlib.metadata import EntryPoint, entry_points
from typing import Any

GROUP = "spindle.plugins"
PLUGIN_NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")

Variables = Mapping[str, tuple[str, ...]]
"""The environment variables that a credential sets, each with the credential's fields that may hold its value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugin:
    """The parts of a plugin; those in code are import paths, so that a process imports only those that it uses.

    - `modules` register stages, trace actions, extractor methods and row transforms by decorators.
    - `credentials` are providers of cloud credentials with their environment variables.
    - `router` is a `spindle.rest.Router` as `module:name`, served under the plugin's name.
    - `settings` is a pydantic settings class as `module:name`, read once when the service starts.
    - `migrations` is a package with Alembic revisions of the plugin's own tables.
    - `pipelines` is a package with YAML files; each is a pipeline that an agent can be made of.
    """

    description: str = ""
    modules: tuple[str, ...] = ()
    credentials: Mapping[str, Variables] = field(default_factory=dict[str, Variables])
    router: str | None = None
    settings: str | None = None
    migrations: str | None = None
    pipelines: str | None = None

    def read_pipelines(self) -> Mapping[str, str]:
        """Return the texts of the pipelines that the plugin ships, by the names of their files."""
        if self.pipelines is None:
            return {}
        files = [each for each in resources.files(self.pipelines).iterdir() if each.name.endswith(".yaml")]
        return {each.name.removesuffix(".yaml"): each.read_text("utf-8") for each in sorted(files, key=str)}


@dataclass(frozen=True, slots=True)
class InstalledPlugin:
    """A plugin of this Python environment with the distribution that brought it."""

    name: str
    plugin: Plugin
    distribution: str
    version: str


@dataclass(frozen=True, slots=True)
class PluginFailure:
    """A plugin that is left out, or a part of it that is, and the reason."""

    plugin: str
    error: str

    def __str__(self) -> str:
        return f"the plugin {self.plugin} is left out, because it cannot be loaded: {self.error}"


def find_entry_points() -> list[EntryPoint]:
    """Return the entry points of all installed plugins in load order; of two that clash, the later one fails."""
    found = {(point.name, point.value): point for point in entry_points(group=GROUP)}
    return [found[key] for key in sorted(found)]


def load_object(path: str) -> Any:
    """Return the object that `module:name` names."""
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)


def load_plugin(point: EntryPoint) -> InstalledPlugin:
    """Return the plugin of an entry point; raise ValueError when it is none."""
    if not PLUGIN_NAME.fullmatch(point.name):
        raise ValueError("its name must begin with a small letter, and have only small letters, digits, '-' and '_'")
    plugin = point.load()
    if not isinstance(plugin, Plugin):
        raise ValueError(f"{point.value} is no spindle.Plugin")
    distribution = (point.dist.name, point.dist.version) if point.dist else (point.module, "")
    return InstalledPlugin(point.name, plugin, *distribution)


def describe_error(error: BaseException) -> str:
    """Return the reason of a plugin's failure: a sentence as it is, other exceptions with their class."""
    return str(error) if type(error) is ValueError else f"{type(error).__name__}: {error}"
