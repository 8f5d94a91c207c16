"""extract and flatSelect: add columns from a page, a segment of it, or other columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Literal, NamedTuple, Self

from pydantic import Field, field_validator, model_validator

from pipelines.contract.questions import Question, QuestionReader
from pipelines.contract.workers import Tools
from pipelines.errors import ArgumentError
from pipelines.extract import SelectorFailed, compile_selector
from pipelines.extract.document import Element
from pipelines.extract.extractors import Extractor, ReadRow, check_names
from pipelines.extract.jsonpath import is_json_path
from pipelines.extract.rows import PageSelector, Row
from pipelines.extract.selectors import SelectorText
from pipelines.extract.tables import name_columns, read_row
from pipelines.inference.prompts import make_question, parse_html
from pipelines.language.columns import Columns
from pipelines.language.names import normalize
from pipelines.language.origins import OTHERS, Origin
from pipelines.planning.stage import RowStage, register_stage

_OPTIONS = frozenset(("required", "columns"))  # of flatSelect, after its extractors


def _check_unique(extractors: tuple[Extractor, ...]) -> tuple[Extractor, ...]:
    check_names(extractors)
    return extractors


def _format_names(extractors: tuple[Extractor, ...]) -> str:
    return ", ".join(extractor.output()[0] for extractor in extractors)


class _Column(NamedTuple):
    """The column of an extractor, and the functions that give its value, and a default where there is none.

    A function that `follows` reads a column that the same list has made.
    """

    name: str
    read: ReadRow
    default: ReadRow | None
    of_page: bool
    follows: bool


def _build_reader(extractors: tuple[Extractor, ...], tools: Tools, first: int = 0) -> Callable[[Row], Iterable[Row]]:
    """Return a function that adds the extractors' columns in order; a row whose pattern takes too long fails.

    Matches of the extractors on pages are counted from selector number `first` on.
    """
    columns: list[_Column] = []
    number = first
    for extractor in extractors:
        of_page = extractor.column() is None
        on_unfit = partial(tools.tally.add_unfit, number) if of_page else None
        name, _ = extractor.output()
        follows = any(column.name == extractor.column() for column in columns)
        read_value = extractor.build_worker(with_default=False, on_unfit=on_unfit)
        columns.append(_Column(name, read_value, extractor.build_default(), of_page, follows))
        number += of_page
    questions = {
        extractor.output()[0]: _build_question(extractor) for extractor in extractors if extractor.asks_questions
    }
    nothing = {column.name: None for column in columns}

    def read(row: Row) -> Iterable[Row]:
        values, found, error = dict[str, object](), list[object](), None
        try:
            for name, read_value, get_default, of_page, follows in columns:
                source = row.with_values(values) if follows else row
                if questions and name in questions:
                    value, unanswered = _ask(*questions[name], tools.reader, source)
                    error = error or unanswered
                else:
                    value = read_value(source)
                if of_page:
                    found.append(value)
                values[name] = get_default(row) if value is None and get_default else value
        except SelectorFailed as failure:
            return (row.mark_failed(str(failure), row.values | nothing),)
        tools.tally.add(row.fetched, found, first)
        made = row.with_values(values)
        return (made.add_error(error) if error else made,)

    return read


_Asked = tuple[Question, Callable[[Row], Element | None]]


def _build_question(extractor: Extractor) -> _Asked:
    """Return the question of an extractor, and the function that finds its subject."""
    question, column = make_question(extractor.argument() or "the main data of the page"), extractor.column()
    if column is not None:
        return question, lambda row: None if (text := row.value(column)) is None else parse_html(str(text), row)
    if extractor.selector is None:
        return question, lambda row: row.element
    selector = compile_selector(extractor.selector)
    return question, lambda row: row.element.first(selector) if row.element else None


def _requires_answer(extractors: tuple[Extractor, ...], prompt: str) -> bool:
    asking = (each for each in extractors if each.asks_questions and each.required)
    return any(_build_question(each)[0].prompt == prompt for each in asking)


def _ask(
    question: Question, find: Callable[[Row], Element | None], reader: QuestionReader, row: Row
) -> tuple[object, str | None]:
    """Return the answer to a question about a row, and why there is none."""
    if (element := find(row)) is None:
        return None, None
    answer = reader.read_values(question, element)
    return {field: found.value for field, found in answer.found.items() if found} or None, answer.error


def _list_selectors(extractors: tuple[Extractor, ...]) -> Iterator[PageSelector]:
    for extractor in extractors:
        if extractor.column() is None:
            yield PageSelector(extractor.output()[0], extractor.source, extractor.required)


def _list_columns(extractors: tuple[Extractor, ...]) -> tuple[str, ...]:
    """Return the columns that extractors read, without those that extractors above have made."""
    names = [extractor.output()[0] for extractor in extractors]
    columns = (extractor.column() for extractor in extractors)
    return tuple(column for number, column in enumerate(columns) if column and column not in names[:number])


def _trace(extractors: tuple[Extractor, ...]) -> dict[str, Origin]:
    """Return what the extractors' columns are made of; one that reads a column of the list is made of the same."""
    made = dict[str, Origin]()
    for each in extractors:
        name, column = each.output()[0], each.column()
        origin = Origin(parts=(each.source or each.name(),)) if column is None else made.get(column, Origin((column,)))
        made[name] = replace(origin, description=each.description)
    return made


@register_stage("extract")
class Extract(RowStage):
    """Add a column per extractor: the first match in the row's page or segment, or null.

    Pages in JSON are read by JSON paths (RFC 9535 with names, indexes and *): `selector: $.data.items[0].name`. As
    a `field`, a path with a dot or bracket may omit `$.`: `field: data.items[0].name`. A plain `field: name` is a
    column, and `$.name` the page's own. Numbers, truth values and texts keep their types: a column has the type
    that holds the values of all rows, or text where they are mixed; lists and objects are text in JSON. JSON in
    lines (NDJSON) is a list: flatSelect with `$[*]` gives its rows. `cast` or `method: text` name the type.
    `attr:NAME` reads a member of an object as text. XML, RSS, Atom and sitemaps (`.xml.gz` too) are read by
    selectors or XPath: `item > title`, `media|content[url]`; names in XML are case-sensitive, a prefix is one that
    any element declares, addresses obey xml:base, and of jsoup's extensions only `:contains` and `:has` work. Pages
    of XHTML are read as XML and selected as HTML. XML that is not well-formed is repaired with a warning; XML that
    ends early and malformed JSON set `_error`. For other types of pages, `code` returns the whole text.
    `parser: xml` (or html, json) of the fetch, wget or join overrides a wrong Content-Type. A pattern that takes more
    than a second on a page sets `_error`.
    """

    example = """
fetch: {url: "${SHOP}/"}
pipeline:
  - stage: extract
    args:
      - {selector: h1, as: title}
      - {selector: .price, method: price}
      - {selector: a, method: href, as: first_link}
"""

    rest = "extractors"
    keeps_rows = True
    extractors: tuple[Extractor, ...] = Field(min_length=1)

    _check = field_validator("extractors")(_check_unique)

    def describe(self) -> str:
        return _format_names(self.extractors)

    def list_references(self) -> tuple[str, ...]:
        return _list_columns(self.extractors)

    @property
    def reads_page(self) -> bool:
        return any(extractor.column() is None for extractor in self.extractors)

    def infer_columns(self, before: Columns) -> Columns:
        return before.with_columns(tuple(extractor.output() for extractor in self.extractors))

    def trace_columns(self, before: Columns) -> Mapping[str, Origin]:
        return _trace(self.extractors)

    def list_selectors(self) -> tuple[PageSelector, ...]:
        return tuple(_list_selectors(self.extractors))

    def requires_answer(self, prompt: str, field: str) -> bool:
        return _requires_answer(self.extractors, prompt)

    @property
    def asks_questions(self) -> bool:
        return any(extractor.asks_questions for extractor in self.extractors)

    def work(self, tools: Tools) -> Callable[[Row], Iterable[Row]]:
        return _build_reader(self.extractors, tools)


@register_stage("flatSelect", "widen")
class FlatSelect(RowStage):
    """Return one row per segment of the page that matches the selector; later stages read inside the segment.

    A row whose page has no match remains, with null in the columns of this stage: use filter on one of them to drop it.

    `[li.product, [...], {required: true}]` fails the run when the selector matches nothing on any page that was read.

    For pages in JSON, the selector is a path: `$.data.items` returns one row per item of the array, and the paths in
    later stages are relative to the item.

    With `columns: auto`, as in `[tr, {columns: auto}]`, the segments are rows of tables: their cells are the columns,
    which only the run discovers, called as the headings above them, such as `Price_euro` for `Price (€)`, and
    rows of headings are left out. Headings that differ only in case are one column.
    """

    example = """
fetch: {url: "${SHOP}/"}
pipeline:
  - stage: flatSelect
    args:
      - li.product
      - - {selector: a, as: name}
        - {selector: .price, method: price}
"""

    positional = ("selector",)
    rest = "extractors"
    widens = True
    keeps_rows = True
    mixes_types = True
    selector: SelectorText
    extractors: tuple[Extractor, ...] = ()
    required: bool = Field(default=False, description="fail the run when no page that was read has a segment")
    columns: Literal["auto"] | None = Field(default=None, description="auto: those of the table of the segments")

    _check = field_validator("extractors")(_check_unique)

    @model_validator(mode="before")
    @classmethod
    def _take_options(cls, data: Any) -> Any:
        """Accept `{required: true, columns: auto}` after the extractors of a list."""
        match data:
            case {"extractors": [*extractors, {**last}]} if {normalize(str(name)) for name in last} <= _OPTIONS:
                return {**data, "extractors": extractors, **last}
            case _:
                return data

    @model_validator(mode="after")
    def _check_columns(self) -> Self:
        if self.columns and is_json_path(self.selector):
            raise ArgumentError("'columns: auto' reads the rows of tables in HTML", "conflicting-arguments")
        return self

    def describe(self) -> str:
        return f"{self.selector} {_format_names(self.extractors)}".rstrip()

    def list_references(self) -> tuple[str, ...]:
        return _list_columns(self.extractors)

    @property
    def reads_page(self) -> bool:
        return True

    def infer_columns(self, before: Columns) -> Columns:
        columns = Columns(before.types, before.open or self.columns is not None)
        return columns.with_columns(tuple(extractor.output() for extractor in self.extractors))

    def trace_columns(self, before: Columns) -> Mapping[str, Origin]:
        cells = {OTHERS: Origin((OTHERS,), (self.selector,))} if self.columns else {}
        return {**_trace(self.extractors), **cells}

    def list_selectors(self) -> tuple[PageSelector, ...]:
        return PageSelector(None, self.selector, self.required), *_list_selectors(self.extractors)

    def requires_answer(self, prompt: str, field: str) -> bool:
        return _requires_answer(self.extractors, prompt)

    @property
    def asks_questions(self) -> bool:
        return any(extractor.asks_questions for extractor in self.extractors)

    def work(self, tools: Tools) -> Callable[[Row], Iterable[Row]]:
        selector, read = compile_selector(self.selector), _build_reader(self.extractors, tools, 1)
        nothing = {extractor.output()[0]: None for extractor in self.extractors}

        def find(element: Element, row: Row) -> list[tuple[Element, dict[str, object]]]:
            if self.columns is None:
                return [(each, {}) for each in element.select(selector)]
            rows = ((each, read_row(each)) for each in element.select(selector))
            return [(each, name_columns(cells, (*row.values, *nothing))) for each, cells in rows if cells is not None]

        def segments(row: Row) -> Iterator[Row]:
            try:
                found = find(row.element, row) if row.element else []
            except SelectorFailed as error:
                yield row.make_child(0, None).mark_failed(str(error), row.values | nothing)
                return
            tools.tally.add(row.fetched, [found])
            for position, (element, cells) in enumerate(found, start=1):
                child = row.make_child(position, element)
                yield from read(child.with_values(cells) if cells else child)
            if not found:
                yield row.make_child(0, None).with_values(nothing)

        return segments
