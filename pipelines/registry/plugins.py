"""Plugins: packages that bring stages, trace actions, extractor methods and row transforms by entry points.

A package names, in its own metadata, modules whose decorators register what they hold, or functions for row transforms:

    [project.entry-points."spindle.stages"]
    weather = "weather.stages"
    [project.entry-points."spindle.row_transforms"]
    to_celsius = "weather.units:to_celsius"

An entry point that fails takes no other down: it is left out, and told wherever it is missed.
"""

from __future__ import annotations

import importlib
import pkgutil
import site
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from threading import RLock
from types import FunctionType
from typing import Any

OWN_DISTRIBUTION = "spindle"
TRANSFORMS = "spindle.row_transforms"
GROUPS = ("spindle.stages", "spindle.actions", "spindle.methods", TRANSFORMS)


@dataclass(frozen=True, slots=True)
class Failure:
    """What of a plugin is left out, and why."""

    plugin: str
    entry: str
    error: str

    def __str__(self) -> str:
        return f"{self.entry} of the plugin {self.plugin} is left out, because it cannot be loaded: {self.error}"


_lock = RLock()
_failures: list[Failure] | None = None


def load() -> tuple[Failure, ...]:
    """Registers all there is, once per process, and tells what could not be; a plugin's own look-ups find it begun."""
    global _failures
    with _lock:
        if _failures is None:
            _load_own()
            _failures = []
            _failures.extend(_load(_found()))
        return tuple(_failures)


def folders() -> tuple[str, ...]:
    """Where plugins lie outside Python's own package folders, for the processes that are started with another path."""
    own = {Path(folder).resolve() for folder in (*site.getsitepackages(), site.getusersitepackages())}
    places = (Path(str(point.dist.locate_file(""))).resolve() for point in _found() if point.dist)
    return tuple(dict.fromkeys(str(place) for place in places if place not in own))


def _load_own() -> None:
    for package in ("pipelines.stages", "pipelines.transforms"):
        importlib.import_module(package)
    from pipelines import stages
    from pipelines.browser import actions

    for package in (stages, actions):
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)


def _found() -> list[EntryPoint]:
    """The entry points in the order in which they are loaded: of two that clash, the later is left out."""
    found = {(point.group, point.name, point.value): point for group in GROUPS for point in entry_points(group=group)}
    return sorted(found.values(), key=lambda point: (_plugin(point), GROUPS.index(point.group), point.name))


def _plugin(point: EntryPoint) -> str:
    """The distribution; of first-party plugins, which share one, the entry point's own name."""
    distribution = point.dist.name if point.dist else point.module.partition(".")[0]
    return point.name if distribution == OWN_DISTRIBUTION else distribution


def _load(points: Iterable[EntryPoint]) -> Iterable[Failure]:
    from pipelines.registry.catalog import Catalog  # it loads plugins when it is asked: late, to break the circle

    for point in points:
        try:
            with Catalog.of_plugin(_plugin(point)):
                _register(point)
        except (Exception, SystemExit) as error:  # whatever a plugin raises is its own, and must not reach the others
            reason = str(error) if type(error) is ValueError else f"{type(error).__name__}: {error}"
            yield Failure(_plugin(point), f"{point.group} '{point.name}'", reason)


def _register(point: EntryPoint) -> None:
    from pipelines.transforms import ROW_TRANSFORMS

    loaded: Any = point.load()
    if point.group != TRANSFORMS:
        return
    if not isinstance(loaded, FunctionType):
        raise ValueError(f"{point.value} is no function")
    ROW_TRANSFORMS.add(point.name, thing=loaded)
