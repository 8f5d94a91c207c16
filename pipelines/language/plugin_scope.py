"""The plugins of an organization as planning knows them: disabled ones, and the parts of uploaded ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class UploadedPart:
    """A stage of an uploaded plugin, by its registered name: a driver has its code and checks its arguments."""

    kind: ClassVar[str] = "stage"
    name: str


@dataclass(frozen=True, slots=True)
class UploadedMethod(UploadedPart):
    """An extractor method of an uploaded plugin: the type of its column, and the name of its argument, if it has one.

    It may read the value of a column where it `reads_columns`. Without a type, nothing else about it is known.
    """

    kind: ClassVar[str] = "method"
    type: str | None = None
    takes: str | None = None
    reads_columns: bool = True


@dataclass(frozen=True, slots=True)
class UploadedAction(UploadedPart):
    """A trace action of an uploaded plugin with the names of its parameters; None where they are not known."""

    kind: ClassVar[str] = "action"
    parameters: tuple[str, ...] | None = None
    required: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PluginScope:
    """The plugins of an organization: those that are disabled, and the parts of uploaded ones by normalized names.

    A scope that `accepts_new` takes an unknown name that is like no other for one of a plugin, and allows disabled
    plugins; one that `accepts_all` does so with every unknown name.
    """

    disabled: frozenset[str] = frozenset()
    stages: Mapping[str, UploadedPart] = field(default_factory=dict[str, UploadedPart])
    methods: Mapping[str, UploadedMethod] = field(default_factory=dict[str, UploadedMethod])
    actions: Mapping[str, UploadedAction] = field(default_factory=dict[str, UploadedAction])
    accepts_new: bool = False
    accepts_all: bool = False

    def accepts(self, may_come: bool) -> bool:
        """Return whether an unknown name is taken for one of a plugin, which `may_come` where no name is like it."""
        return self.accepts_all or (self.accepts_new and may_come)

    def add_parts(self, other: PluginScope) -> PluginScope:
        """Return this scope with the parts of another one."""
        stages, methods, actions = (
            {**self.stages, **other.stages},
            {**self.methods, **other.methods},
            {**self.actions, **other.actions},
        )
        return replace(self, stages=stages, methods=methods, actions=actions)

    def list_parts(self) -> Iterator[UploadedPart]:
        """Yield the parts of uploaded plugins."""
        yield from self.stages.values()
        yield from self.methods.values()
        yield from self.actions.values()


ALL_PLUGINS = PluginScope()
ANY_PLUGINS = PluginScope(accepts_all=True)
