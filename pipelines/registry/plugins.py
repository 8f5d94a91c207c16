"""Discovery of plugins: packages that bring stages, trace actions, extractor methods and row transforms.

A package declares entry points in its metadata. Each names a module whose decorators register stages, actions or
methods, or a function that becomes a row transform:

    [project.entry-points."spindle.stages"]
    weather = "weather.stages"
    [project.entry-points."spindle.row_transforms"]
    to_celsius = "weather.units:to_celsius"
"""

from __future__ import annotations

import site
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points, version
from pathlib import Path

OWN_DISTRIBUTION = "spindle"
ROW_TRANSFORMS_GROUP = "spindle.row_transforms"
GROUPS = ("spindle.stages", "spindle.actions", "spindle.methods", ROW_TRANSFORMS_GROUP)


@dataclass(frozen=True, slots=True)
class PluginFailure:
    """An entry point that could not be loaded, and the reason."""

    plugin: str
    entry: str
    error: str

    def __str__(self) -> str:
        return f"{self.entry} of the plugin {self.plugin} is left out, because it cannot be loaded: {self.error}"


def find_entry_points() -> list[EntryPoint]:
    """Return the entry points of all plugins in load order; of two that clash, the later one fails."""
    found = {(point.group, point.name, point.value): point for group in GROUPS for point in entry_points(group=group)}
    return sorted(found.values(), key=lambda point: (get_plugin_name(point), GROUPS.index(point.group), point.name))


def get_plugin_name(point: EntryPoint) -> str:
    """Return the distribution's name, or the entry point's for first-party plugins, which share one distribution."""
    distribution = point.dist.name if point.dist else point.module.partition(".")[0]
    return point.name if distribution == OWN_DISTRIBUTION else distribution


def describe_engine() -> str:
    """Return the versions of the engine, of Spark and of the plugins."""
    own = (OWN_DISTRIBUTION, "pyspark")
    plugins = (f"{point.dist.name} {point.dist.version}" for point in find_entry_points() if point.dist)
    return ", ".join(dict.fromkeys((*(f"{name} {version(name)}" for name in own), *plugins)))


def find_plugin_folders() -> tuple[str, ...]:
    """Return the folders of plugins outside Python's package folders, for processes with another import path."""
    own = {Path(folder).resolve() for folder in (*site.getsitepackages(), site.getusersitepackages())}
    folders = (Path(str(point.dist.locate_file(""))).resolve() for point in find_entry_points() if point.dist)
    return tuple(dict.fromkeys(str(folder) for folder in folders if folder not in own))
