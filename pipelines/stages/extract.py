"""extract and flatSelect: columns read from a page, a segment of it, or other columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from pydantic import Field, field_validator

from pipelines.extract import SlowPattern, compile_selector
from pipelines.extract.extractors import Extractor, check_names
from pipelines.extract.rows import Row
from pipelines.extract.selectors import SelectorText
from pipelines.language.columns import Columns
from pipelines.planning.stage import RowStage, register_stage


def _unique(extractors: tuple[Extractor, ...]) -> tuple[Extractor, ...]:
    check_names(extractors)
    return extractors


def _names(extractors: tuple[Extractor, ...]) -> str:
    return ", ".join(extractor.output()[0] for extractor in extractors)


def _reading(extractors: tuple[Extractor, ...]) -> Callable[[Row], Iterable[Row]]:
    """Gives a row with the extractors' columns; where a pattern takes too long on its page it has failed."""
    reads = [(extractor.output()[0], extractor.build_worker()) for extractor in extractors]
    nothing = {name: None for name, _ in reads}

    def read(row: Row) -> Iterable[Row]:
        try:
            return (row.with_values({name: read(row) for name, read in reads}),)
        except SlowPattern as error:
            return (row.mark_failed(str(error), row.values | nothing),)

    return read


def _read_columns(extractors: tuple[Extractor, ...]) -> tuple[str, ...]:
    return tuple(column for extractor in extractors if (column := extractor.column()))


@register_stage("extract")
class Extract(RowStage):
    """Adds a column for each extractor: its first match in the row's page or segment, null where there is none.

    A page that is JSON is read by paths (RFC 9535: names, indexes, *): `selector: $.data.items[0].name`, or as a field,
    which may leave out `$.` where there is a dot or bracket: `field: data.items[0].name`. (A plain `field: name` is a
    column; the page's own is `$.name`.) Texts are given as they are,
    other values as JSON; `attr:NAME` is an object's member. Of a page that is neither, `code` is the whole text.
    A :matches that takes more than a second on a page ends in `_error`.
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
    extractors: tuple[Extractor, ...] = Field(min_length=1)

    _check = field_validator("extractors")(_unique)

    def describe(self) -> str:
        return _names(self.extractors)

    def list_references(self) -> tuple[str, ...]:
        return _read_columns(self.extractors)

    @property
    def reads_page(self) -> bool:
        return any(extractor.column() is None for extractor in self.extractors)

    def infer_columns(self, before: Columns) -> Columns:
        return before.with_columns(tuple(extractor.output() for extractor in self.extractors))

    def build_worker(self) -> Callable[[Row], Iterable[Row]]:
        return _reading(self.extractors)


@register_stage("flatSelect", "widen")
class FlatSelect(RowStage):
    """One row for each segment of the page that the selector finds; what follows reads inside the segment.

    A row in whose page it finds none stays, with null in the columns of this stage: a filter on one of them drops it.

    Of a JSON page the selector is a path: `$.data.items` gives a row for each item of the array, and paths of what
    follows begin at the item.
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
    selector: SelectorText
    extractors: tuple[Extractor, ...] = ()

    _check = field_validator("extractors")(_unique)

    def describe(self) -> str:
        return f"{self.selector} {_names(self.extractors)}".rstrip()

    def list_references(self) -> tuple[str, ...]:
        return _read_columns(self.extractors)

    @property
    def reads_page(self) -> bool:
        return True

    def infer_columns(self, before: Columns) -> Columns:
        return before.with_columns(tuple(extractor.output() for extractor in self.extractors))

    def build_worker(self) -> Callable[[Row], Iterable[Row]]:
        selector, read = compile_selector(self.selector), _reading(self.extractors)
        nothing = {extractor.output()[0]: None for extractor in self.extractors}

        def segments(row: Row) -> Iterator[Row]:
            try:
                found = row.element.select(selector) if row.element else []
            except SlowPattern as error:
                yield row.make_child(0, None).mark_failed(str(error), row.values | nothing)
                return
            for position, element in enumerate(found, start=1):
                yield from read(row.make_child(position, element))
            if not found:
                yield row.make_child(0, None).with_values(nothing)

        return segments
