"""extract and flatSelect: columns read from a page, a segment of it, or other columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from pydantic import Field, field_validator

from pipelines.columns import Columns
from pipelines.extractors import Extractor, check_names
from pipelines.html import compile_selector
from pipelines.registry import RowStage, stage
from pipelines.rows import Row
from pipelines.selectors import Selector


def _unique(extractors: tuple[Extractor, ...]) -> tuple[Extractor, ...]:
    check_names(extractors)
    return extractors


def _names(extractors: tuple[Extractor, ...]) -> str:
    return ", ".join(extractor.output()[0] for extractor in extractors)


def _reader(extractors: tuple[Extractor, ...]) -> Callable[[Row], dict[str, object]]:
    reads = [(extractor.output()[0], extractor.worker()) for extractor in extractors]
    return lambda row: {name: read(row) for name, read in reads}


def _read_columns(extractors: tuple[Extractor, ...]) -> tuple[str, ...]:
    return tuple(column for extractor in extractors if (column := extractor.column()))


@stage("extract")
class Extract(RowStage):
    """Adds a column for each extractor: its first match in the row's page or segment, null where there is none."""

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

    def title(self) -> str:
        return _names(self.extractors)

    def reads(self) -> tuple[str, ...]:
        return _read_columns(self.extractors)

    def uses_page(self) -> bool:
        return any(extractor.column() is None for extractor in self.extractors)

    def columns(self, before: Columns) -> Columns:
        return before.with_columns(tuple(extractor.output() for extractor in self.extractors))

    def worker(self) -> Callable[[Row], Iterable[Row]]:
        read = _reader(self.extractors)
        return lambda row: (row.with_values(read(row)),)


@stage("flatSelect", "widen")
class FlatSelect(RowStage):
    """One row for each segment of the page that the selector finds; what follows reads inside the segment."""

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
    needs_page = True
    selector: Selector
    extractors: tuple[Extractor, ...] = ()

    _check = field_validator("extractors")(_unique)

    def title(self) -> str:
        return f"{self.selector} {_names(self.extractors)}".rstrip()

    def reads(self) -> tuple[str, ...]:
        return _read_columns(self.extractors)

    def columns(self, before: Columns) -> Columns:
        return before.with_columns(tuple(extractor.output() for extractor in self.extractors))

    def worker(self) -> Callable[[Row], Iterable[Row]]:
        selector, read = compile_selector(self.selector), _reader(self.extractors)
        nothing = {extractor.output()[0]: None for extractor in self.extractors}

        def segments(row: Row) -> Iterator[Row]:
            found = row.element.select(selector) if row.element else []
            for position, element in enumerate(found, start=1):
                segment = row.child(position, element)
                yield segment.with_values(read(segment))
            if not found:
                yield row.child(0, None).with_values(nothing)

        return segments
