"""Registries of the names that a pipeline may use: of stages, actions, methods, row transforms and credentials.

A name is registered once; case and underscores do not matter. The engine's own entries come first, then those of
plugins (`pipelines.plugin`), which are loaded at the first lookup of a name that is not registered yet.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import site
import sys
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, version
from pathlib import Path
from threading import RLock
from typing import Any, ClassVar, Generic, TypeVar

from pipelines.language.names import describe_unknown, normalize, suggest
from pipelines.language.plugin_scope import ALL_PLUGINS, PluginScope
from pipelines.plugin import InstalledPlugin, PluginFailure, Variables, describe_error, find_entry_points, load_plugin

ENGINE = "spindle"  # its distribution, and the plugin name of its entries
# imported by name, since they register themselves here and so import this module
_ENGINE_MODULES = (
    "pipelines.extract.extractors",
    "pipelines.planning.checks",
    "pipelines.providers",
    "pipelines.transforms",
)
_ENGINE_PACKAGES = ("pipelines.browser.actions", "pipelines.stages")  # each of their modules

Thing = TypeVar("Thing")


class UnknownName(LookupError):
    """Raised for a name that is not registered; the message lists similar names, `code` is the problem's.

    `may_come` says that there are no similar names, so that a plugin is likely to bring this one.
    """

    def __init__(self, message: str, code: str, may_come: bool = True) -> None:
        super().__init__(message)
        self.code, self.may_come = code, may_come


@dataclass(frozen=True, slots=True)
class Entry(Generic[Thing]):
    """A registered thing with its names; `plugin` is the name of the plugin that registered it."""

    name: str
    aliases: tuple[str, ...]
    thing: Thing
    plugin: str

    @property
    def spellings(self) -> tuple[str, ...]:
        return (self.name, *self.aliases)

    def check_enabled(self, written: str, plugins: PluginScope) -> None:
        """Raise UnknownName where the organization has disabled the plugin of the thing."""
        if self.plugin in plugins.disabled and not plugins.accepts(may_come=True):
            reason = "enable it with POST /svc/api/admin/plugins/{pluginId}/enable"
            sentence = f"'{written}' is of the plugin {self.plugin}, which is disabled: {reason}"
            raise UnknownName(sentence, "plugin-disabled")

    @property
    def doc(self) -> str:
        return inspect.cleandoc(self.thing.__doc__ or "")


class Registry(Generic[Thing]):
    """All things of one kind."""

    _all: ClassVar[list[Registry[Any]]] = []
    _current_plugin: ClassVar[str] = ENGINE

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._entries: dict[str, Entry[Thing]] = {}
        Registry._all.append(self)

    def add(self, name: str, *aliases: str, thing: Thing) -> None:
        """Register a thing; raises ValueError when one of the names is taken."""
        entry = Entry(name, aliases, thing, Registry._current_plugin)
        for spelling in entry.spellings:
            if taken := self._entries.get(normalize(spelling)):
                raise ValueError(f"two {self.kind}s are called {spelling}: the other one is of {taken.plugin}")
        self._entries.update({normalize(spelling): entry for spelling in entry.spellings})

    def get(self, name: str) -> Entry[Thing] | None:
        """Return the entry for a name in any accepted spelling."""
        if normalize(name) not in self._entries:
            load_plugins()
        return self._entries.get(normalize(name))

    def find(self, name: str, plugins: PluginScope = ALL_PLUGINS) -> Entry[Thing]:
        """Return the entry for a name in any spelling; raises UnknownName, also where its plugin is disabled."""
        found = self.get(name)
        if found is None:
            kind = self.kind.replace(" ", "-")
            known = [spelling for entry in self for spelling in entry.spellings]
            sentence = "; ".join((describe_unknown(self.kind, name, known), *map(str, load_plugins().failures)))
            raise UnknownName(sentence, f"unknown-{kind}", not suggest(normalize(name), map(normalize, known)))
        found.check_enabled(name, plugins)
        return found

    def __iter__(self) -> Iterator[Entry[Thing]]:
        """Iterate over the entries by name, once for all their spellings."""
        load_plugins()
        return iter(
            sorted({entry.name: entry for entry in self._entries.values()}.values(), key=lambda each: each.name)
        )

    @staticmethod
    def register_plugin(point: EntryPoint) -> InstalledPlugin:
        """Load a plugin into the registries; when it raises, none of its registrations remain."""
        with Registry._registering(point.name):
            found = load_plugin(point)
            for module in found.plugin.modules:
                importlib.import_module(module)
            for name, variables in found.plugin.credentials.items():
                CREDENTIALS.add(name, thing=variables)
        return found

    @staticmethod
    @contextmanager
    def _registering(plugin: str) -> Generator[None]:
        before = [(registry, dict(registry._entries)) for registry in Registry._all]
        Registry._current_plugin = plugin
        try:
            yield
        except BaseException:
            for registry, entries in before:
                registry._entries = entries
            raise
        finally:
            Registry._current_plugin = ENGINE


CREDENTIALS: Registry[Variables] = Registry("credential provider")


@dataclass(slots=True)
class Plugins:
    """The plugins that this process has loaded, and the failures of others."""

    loaded: list[InstalledPlugin] = field(default_factory=list[InstalledPlugin])
    failures: list[PluginFailure] = field(default_factory=list[PluginFailure])


_lock = RLock()
_added: list[str] = []
_plugins = Plugins()
_taken: set[EntryPoint] = set()
_begun: set[str] = set()  # which plugins are loaded, or are being loaded


def load_plugins() -> Plugins:
    """Load the engine's own entries and all plugins once per process, its own first.

    A failing plugin does not affect the others. Lookups that a plugin makes while it is loaded return at once.
    """
    with _lock:
        if _begin("all"):
            load_own_plugins()
            _register(point for point in find_entry_points() if point not in _taken)
        return _plugins


def load_own_plugins() -> None:
    """Load the engine's own entries, and the plugins that come with it, once per process."""
    with _lock:
        if _begin("own"):
            import_engine()
            _register(point for point in find_entry_points() if point.dist and point.dist.name == ENGINE)


def _begin(plugins: str) -> bool:
    is_first = plugins not in _begun
    _begun.add(plugins)
    return is_first


def _register(points: Iterable[EntryPoint]) -> None:
    for point in points:
        _taken.add(point)
        try:
            if any(each.name == point.name for each in _plugins.loaded):
                raise ValueError("another plugin has its name")
            _plugins.loaded.append(Registry.register_plugin(point))
        except (Exception, SystemExit) as error:  # a plugin may raise anything
            _plugins.failures.append(PluginFailure(point.name, describe_error(error)))


def import_engine() -> None:
    """Import the modules that register the engine's own entries."""
    for name in _ENGINE_MODULES:
        importlib.import_module(name)
    for name in _ENGINE_PACKAGES:
        package = importlib.import_module(name)
        for module in pkgutil.iter_modules(package.__path__, f"{name}."):
            importlib.import_module(module.name)


def describe_engine() -> str:
    """Return the versions of the engine, of Spark and of the plugins."""
    own = (ENGINE, "pyspark")
    plugins = (f"{each.distribution} {each.version}" for each in load_plugins().loaded)
    return ", ".join(dict.fromkeys((*(f"{name} {version(name)}" for name in own), *plugins)))


def add_plugin_folders(folders: Sequence[str]) -> None:
    """Import plugins and what they require from these folders too, after the engine's own packages."""
    sys.path += folders
    _added.extend(folders)


def find_plugin_folders() -> tuple[str, ...]:
    """Return the folders of plugins outside Python's package folders, for processes with another import path."""
    own = {Path(folder).resolve() for folder in (*site.getsitepackages(), site.getusersitepackages())}
    folders = (Path(str(point.dist.locate_file(""))).resolve() for point in find_entry_points() if point.dist)
    return tuple(dict.fromkeys((*(str(folder) for folder in folders if folder not in own), *_added)))
