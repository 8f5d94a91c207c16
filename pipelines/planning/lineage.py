"""Lineage: the columns of a plan's outputs, traced through its stages to the sources that they come from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from pipelines.contract.request import make_table_key
from pipelines.fetch.urls import canonical_url, origin
from pipelines.language.columns import ENGINE_COLUMNS, Columns
from pipelines.language.names import truncate
from pipelines.language.origins import OTHERS, Origin, SourceColumn, TracedColumn
from pipelines.language.parameters import has_reference
from pipelines.planning.plan import Plan
from pipelines.planning.stage import Reset, Sink, Source, Stage

_MOST_SOURCES = 30  # columns of sources of one column; more are named only by their sources
_WEB = ("http://", "https://")
_COPY = Origin((OTHERS,), is_copy=True)
_AUTHORITY = re.compile(r"(\w+://)(?:[^/?#]*@)?([^/?#]*)")


@dataclass(frozen=True, slots=True)
class Lineage:
    """The columns of a plan's output, those of its saves by their paths, and the sources that its stages read."""

    output: tuple[TracedColumn, ...] = ()
    saves: Mapping[str, tuple[TracedColumn, ...]] = field(default_factory=dict[str, tuple[TracedColumn, ...]])
    sources: tuple[str, ...] = ()


def trace_plan(plan: Plan) -> Lineage:
    """Return the lineage of a plan's columns; those without a source or description are left out."""
    rows, saves, sources, before = _Rows(), dict[str, tuple[TracedColumn, ...]](), dict[str, None](), Columns()
    for step in plan.steps:
        if step.stage is None:
            continue
        sources |= dict.fromkeys(_list_sources(step.stage))
        if isinstance(step.stage, Sink):
            saves[step.stage.path] = rows.list_columns()
        rows.apply(step.stage, before, step.columns)
        before = step.columns
    return Lineage(rows.list_columns(plan.options.keep_columns), saves, tuple(sources))


def name_source(address: str) -> str:
    """Return the host of a web address, without path, query and password; other addresses as they are."""
    if not address.startswith(_WEB):
        return address
    if not has_reference(address) and (url := canonical_url(address)) is not None:
        return origin(url)
    match = _AUTHORITY.match(address)
    return "".join(match.groups()) if match else ""


def _list_sources(stage: Stage) -> tuple[str, ...]:
    return tuple(map(name_source, (*stage.list_sources(), *map(make_table_key, stage.list_tables()))))


class _Rows:
    """The columns of the rows after a stage, the sources of their page, and the columns of stored rows.

    A part of the page takes the place of `OTHERS` in its sources; others have the addresses of the pages.
    """

    def __init__(self) -> None:
        self._columns = _Known({}, TracedColumn(OTHERS))
        self._page: tuple[SourceColumn, ...] = ()
        self._stored: dict[str, _Known] = {}

    def list_columns(self, kept: Iterable[str] = ()) -> tuple[TracedColumn, ...]:
        """Return the known columns, the `kept` ones of the engine, and as the last the entry for all others."""
        columns = {**self._columns.named, **{name: self._find(name) for name in kept}, OTHERS: self._columns.others}
        return tuple(each for each in columns.values() if each.sources or each.description or each.is_whole)

    def apply(self, stage: Stage, before: Columns, after: Columns) -> None:
        """Follow the rows through a stage."""
        if isinstance(stage, Source | Reset):
            self._columns, self._page, before = _Known({}, TracedColumn(OTHERS)), (), Columns()
        origins = stage.trace_columns(before)
        earlier = self._columns.named if after.open and OTHERS not in origins else ()
        names = dict.fromkeys((*after, *origins, *earlier))
        made = {name: self._resolve(name, origins.get(name, _COPY)) for name in names if name != OTHERS}
        is_open = after.open or OTHERS in origins
        others = self._resolve(OTHERS, origins.get(OTHERS, _COPY)) if is_open else TracedColumn(OTHERS)
        self._page = self._find_page(stage)
        self._columns = _Known(made, others)
        if label := stage.capabilities.stored_label:
            self._stored[label] = self._columns

    def _find_page(self, stage: Stage) -> tuple[SourceColumn, ...]:
        """Return the sources of the page after a stage: those of its addresses, or of the page with the links."""
        if not stage.gives_page:
            return self._page
        files = () if isinstance(stage, Source) else stage.list_inputs()  # of addresses
        own = [SourceColumn(each, None if each in files else OTHERS) for each in _list_sources(stage)]
        named = [each for name in stage.list_references() for each in self._find(name).sources]
        pages = [replace(each, column=OTHERS) if each.source.startswith(_WEB) else each for each in named]
        return tuple(dict.fromkeys((*own, *pages))) or self._page

    def _find(self, name: str) -> TracedColumn:
        """Return a column of the rows; an engine column that no stage has made is of the page."""
        if name in ENGINE_COLUMNS and name not in self._columns.named:
            return TracedColumn(name, sources=self._name_part(name))
        return self._columns.find(name)

    def _name_part(self, part: str) -> tuple[SourceColumn, ...]:
        """Return a part of the page, in place of the page."""
        part = truncate(part)
        return tuple(replace(each, column=part) if each.column == OTHERS else each for each in self._page)

    def _resolve(self, name: str, made: Origin) -> TracedColumn:
        if made.is_unknown:
            columns = [*self._columns.named.values(), self._columns.others]
            sources = [each for column in columns for each in column.sources]
            sources += [*self._page, *map(_name, made.sources)]
            sources = [SourceColumn(each.source) if each.column == OTHERS else each for each in sources]
            return TracedColumn(name, made.description, _limit(sources), is_whole=True)
        columns = [self._find(name if each == OTHERS else each) for each in made.columns]
        columns += [self._stored[label].find(name) for label in made.labels if label in self._stored]
        sources = [each for column in columns for each in column.sources]
        sources += [each for part in made.parts for each in self._name_part(part)]
        named = map(_name, made.sources)
        sources += [replace(each, column=name) if each.column == OTHERS else each for each in named]
        inherited = columns[0].description if made.is_copy and columns else None
        is_whole = any(column.is_whole for column in columns)
        return TracedColumn(name, made.description or inherited, _limit(sources), is_whole)


@dataclass(frozen=True, slots=True)
class _Known:
    """Columns by their names, and the entry for all others."""

    named: Mapping[str, TracedColumn]
    others: TracedColumn

    def find(self, name: str) -> TracedColumn:
        """Return the column with a name, whose case SQL ignores."""
        return find_column(name, self.named, self.others)


def find_column(name: str, named: Mapping[str, TracedColumn], others: TracedColumn) -> TracedColumn:
    """Return the column with a name, else one whose name differs in case, else the one for all other names."""
    if found := named.get(name):
        return found
    folded = name.casefold()
    if found := next((each for own, each in named.items() if own.casefold() == folded), None):
        return found
    sources = (replace(each, column=name) if each.column == OTHERS else each for each in others.sources)
    return replace(others, name=name, sources=tuple(sources))


def _name(column: SourceColumn) -> SourceColumn:
    return replace(column, source=name_source(column.source))


def _limit(sources: Iterable[SourceColumn]) -> tuple[SourceColumn, ...]:
    """Return the sources without repetitions, and without their columns where these are very many."""
    found = dict.fromkeys(sources)
    if len(found) > _MOST_SOURCES:
        found = dict.fromkeys(SourceColumn(each.source) for each in found)
    return tuple(found)[:_MOST_SOURCES]
