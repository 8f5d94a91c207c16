"""Catalogs of the names that a pipeline may use: stages, trace actions, extractor methods and row transforms.

A name is registered once; case and underscores do not matter. The engine's own entries come first, then those of
plugins. Both are loaded at the first lookup of a name that is not registered yet.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from threading import RLock
from types import FunctionType
from typing import Any, ClassVar, Generic, TypeVar

from pipelines.language.names import describe_unknown, normalize
from pipelines.registry.plugins import PluginFailure, find_entry_points, get_plugin_name

ENGINE = "spindle"  # the plugin name of the engine's own entries
# imported by name, since they register themselves here and so import this module
_ENGINE_MODULES = ("pipelines.extract.extractors", "pipelines.transforms")
_ENGINE_PACKAGES = ("pipelines.browser.actions", "pipelines.stages")  # each of their modules

Thing = TypeVar("Thing")


class UnknownName(LookupError):
    """Raised for a name that is not registered; the message lists similar names, `code` is the problem's."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class Entry(Generic[Thing]):
    """A registered thing with its names; `plugin` is the distribution that registered it."""

    name: str
    aliases: tuple[str, ...]
    thing: Thing
    plugin: str

    @property
    def spellings(self) -> tuple[str, ...]:
        return (self.name, *self.aliases)

    @property
    def doc(self) -> str:
        return inspect.cleandoc(self.thing.__doc__ or "")


class Catalog(Generic[Thing]):
    """All things of one kind; functions in the entry-point group `functions_group` are registered as they are."""

    _all: ClassVar[list[Catalog[Any]]] = []
    _current_plugin: ClassVar[str] = ENGINE

    def __init__(self, kind: str, functions_group: str | None = None) -> None:
        self.kind = kind
        self._functions_group = functions_group
        self._entries: dict[str, Entry[Thing]] = {}
        self._unsupported: dict[str, str] = {}
        Catalog._all.append(self)

    def add(self, name: str, *aliases: str, thing: Thing) -> None:
        """Register a thing; raises ValueError when one of the names is taken."""
        entry = Entry(name, aliases, thing, Catalog._current_plugin)
        for spelling in entry.spellings:
            if taken := self._entries.get(normalize(spelling)):
                raise ValueError(f"two {self.kind}s are called {spelling}: the other one is of {taken.plugin}")
        self._entries.update({normalize(spelling): entry for spelling in entry.spellings})

    def mark_unsupported(self, reason: str, *names: str) -> None:
        """Give the reason why these names, which users may expect, are not registered."""
        self._unsupported.update({normalize(name): reason for name in names})

    def get(self, name: str) -> Entry[Thing] | None:
        """Return the entry for a name in any accepted spelling."""
        if normalize(name) not in self._entries:
            load_plugins()
        return self._entries.get(normalize(name))

    def find(self, name: str) -> Entry[Thing]:
        """Return the entry for a name in any accepted spelling; raises UnknownName."""
        found, kind = self.get(name), self.kind.replace(" ", "-")
        if found is None and (reason := self._unsupported.get(normalize(name))):
            raise UnknownName(f"the {self.kind} '{name}' is not supported: {reason}", f"unsupported-{kind}")
        if found is None:
            sentence = describe_unknown(self.kind, name, [spelling for entry in self for spelling in entry.spellings])
            raise UnknownName("; ".join((sentence, *map(str, load_plugins()))), f"unknown-{kind}")
        return found

    def __iter__(self) -> Iterator[Entry[Thing]]:
        """Iterate over the entries by name, once for all their spellings."""
        load_plugins()
        return iter(
            sorted({entry.name: entry for entry in self._entries.values()}.values(), key=lambda each: each.name)
        )

    @staticmethod
    def register_entry_point(point: EntryPoint) -> None:
        """Load an entry point into the catalogs; when it raises, none of its registrations remain."""
        with Catalog._registering(get_plugin_name(point)):
            loaded: Any = point.load()
            for catalog in Catalog._all:
                if catalog._functions_group == point.group:
                    if not isinstance(loaded, FunctionType):
                        raise ValueError(f"{point.value} is no function")
                    catalog.add(point.name, thing=loaded)

    @staticmethod
    @contextmanager
    def _registering(plugin: str) -> Generator[None]:
        before = [(catalog, dict(catalog._entries)) for catalog in Catalog._all]
        Catalog._current_plugin = plugin
        try:
            yield
        except BaseException:
            for catalog, entries in before:
                catalog._entries = entries
            raise
        finally:
            Catalog._current_plugin = ENGINE


_lock = RLock()
_failures: list[PluginFailure] | None = None


def load_plugins() -> tuple[PluginFailure, ...]:
    """Load the engine's own entries and all plugins once per process; return the plugins' failures.

    A failing entry point does not affect the others. Lookups that a plugin makes while it is loaded return at once.
    """
    global _failures
    with _lock:
        if _failures is None:
            _import_engine()
            _failures = []
            for point in find_entry_points():
                try:
                    Catalog.register_entry_point(point)
                except (Exception, SystemExit) as error:  # a plugin may raise anything
                    reason = str(error) if type(error) is ValueError else f"{type(error).__name__}: {error}"
                    _failures.append(PluginFailure(get_plugin_name(point), f"{point.group} '{point.name}'", reason))
        return tuple(_failures)


def _import_engine() -> None:
    for name in _ENGINE_MODULES:
        importlib.import_module(name)
    for name in _ENGINE_PACKAGES:
        package = importlib.import_module(name)
        for module in pkgutil.iter_modules(package.__path__, f"{name}."):
            importlib.import_module(module.name)
