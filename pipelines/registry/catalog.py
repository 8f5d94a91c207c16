"""What pipelines name, kind by kind: stages, trace actions, extractor methods, row transforms, and who brought each.

A name is given once, in any spelling. The engine's own things are registered first, then those of plugins; both are
loaded when a name is asked for that is not known yet.
"""

from __future__ import annotations

import inspect
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

from pipelines.language.names import fold, unknown
from pipelines.registry import plugins

ENGINE = "spindle"

Thing = TypeVar("Thing")


class Unknown(LookupError):
    """Nothing has this name; the message lists near matches."""


@dataclass(frozen=True, slots=True)
class Named(Generic[Thing]):
    """A thing under its name; `plugin` is the distribution that brought it."""

    name: str
    aliases: tuple[str, ...]
    thing: Thing
    plugin: str

    @property
    def spellings(self) -> tuple[str, ...]:
        return (self.name, *self.aliases)

    @property
    def doc(self) -> str:
        """What the thing says of itself."""
        return inspect.cleandoc(self.thing.__doc__ or "")


class Catalog(Generic[Thing]):
    """All things of one kind."""

    _all: ClassVar[list[Catalog[object]]] = []
    _plugin: ClassVar[str] = ENGINE

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._named: dict[str, Named[Thing]] = {}
        self._absent: dict[str, str] = {}
        Catalog._all.append(self)  # pyright: ignore[reportArgumentType]

    def add(self, name: str, *aliases: str, thing: Thing) -> None:
        """Raises ValueError when one of the names is taken."""
        named = Named(name, aliases, thing, Catalog._plugin)
        for spelling in named.spellings:
            if taken := self._named.get(fold(spelling)):
                raise ValueError(f"two {self.kind}s are called {spelling}: the other one is of {taken.plugin}")
        self._named.update({fold(spelling): named for spelling in named.spellings})

    def absent(self, because: str, *names: str) -> None:
        """Names that people will look for and that nothing has yet: they are told why."""
        self._absent.update({fold(name): because for name in names})

    def get(self, name: str) -> Named[Thing] | None:
        """What a pipeline calls `name`, in any accepted spelling."""
        if fold(name) not in self._named:
            plugins.load()
        return self._named.get(fold(name))

    def find(self, name: str) -> Named[Thing]:
        """What a pipeline calls `name`; raises Unknown."""
        found = self.get(name)
        if found is None and (because := self._absent.get(fold(name))):
            raise Unknown(f"the {self.kind} '{name}' is not there yet: {because}")
        if found is None:
            sentence = unknown(self.kind, name, [spelling for each in self for spelling in each.spellings])
            raise Unknown("; ".join((sentence, *map(str, plugins.load()))))
        return found

    def __iter__(self) -> Iterator[Named[Thing]]:
        """Each thing once, by name."""
        plugins.load()
        return iter(sorted({each.name: each for each in self._named.values()}.values(), key=lambda each: each.name))

    @staticmethod
    @contextmanager
    def of_plugin(plugin: str) -> Generator[None]:
        """What is added inside is the plugin's; when it raises, nothing of it stays."""
        before = [dict(catalog._named) for catalog in Catalog._all]
        Catalog._plugin = plugin
        try:
            yield
        except BaseException:
            for catalog, named in zip(Catalog._all, before, strict=False):
                catalog._named = named
            raise
        finally:
            Catalog._plugin = ENGINE
