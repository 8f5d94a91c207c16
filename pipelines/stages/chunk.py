"""chunk: split texts into parts for search and language models."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Literal, Self

from pydantic import Field, PositiveInt, model_validator
from xxhash import xxh3_128_hexdigest

from pipelines.contract.workers import Tools
from pipelines.errors import ArgumentError
from pipelines.extract.chunks import build_splitter
from pipelines.extract.rows import Row
from pipelines.language.columns import Columns
from pipelines.language.origins import Origin
from pipelines.language.parameters import parse_column_reference
from pipelines.planning.stage import CHUNK_DOCUMENT, CHUNK_ID, RowStage, register_stage

_COLUMNS = ((CHUNK_ID, "string"), (CHUNK_DOCUMENT, "string"), ("headings", "array<string>"), ("position", "bigint"))


@register_stage("chunk")
class Chunk(RowStage):
    """Replace each row by the chunks of a text in one of its columns, such as the Markdown of a page.

    `by: headings` gives a chunk for each section of Markdown, larger ones in parts of at most `size` tokens, and `by:
    tokens` cuts where paragraphs and sentences end. A token is 4 bytes of UTF-8, about that of language models.

    The column keeps its name and has the text of the chunk. Added are `id`, `document` (the address of the page, or the
    column `of`), `headings` (from the outermost on) and `position` (from 1). The `id` is the document with the headings
    of the section, and the number of the part from the second on: it stays when other sections come or go. So `output:
    {mode: merge, keys: [id]}` replaces the chunks of documents, and removes those whose sections are gone from a
    document that was read (see `within` of the output). Rows without a text have no chunk; a failed page removes none.
    """

    example = """
fetch: {url: "${SHOP}/"}
pipeline:
  - {stage: extract, args: [{method: markdown, as: text}]}
  - {stage: chunk, args: [$text, {by: headings, size: 400}]}
"""

    positional = ("text",)
    widens = True
    gives_chunks = True
    text: str = Field(min_length=1, description="the column of the text: $text")
    by: Literal["headings", "tokens"] = Field(default="headings", description="headings or tokens")
    size: PositiveInt = Field(default=500, le=100_000, description="tokens that a chunk has at most")
    overlap: int = Field(default=0, ge=0, description="tokens that a part has of the one before it")
    of: str | None = Field(default=None, min_length=1, description="the column that names the document: $sku")

    @model_validator(mode="after")
    def _check_overlap(self) -> Self:
        if self.overlap >= self.size:
            raise ArgumentError("'overlap' must be less than 'size'", "conflicting-arguments")
        return self

    @property
    def _column(self) -> str:
        return parse_column_reference(self.text) or self.text

    @property
    def _document(self) -> str | None:
        return None if self.of is None else parse_column_reference(self.of) or self.of

    def describe(self) -> str:
        return f"{self._column} by {self.by}"

    def list_references(self) -> tuple[str, ...]:
        return (self._column, *([self._document] if self._document else []))

    def infer_columns(self, before: Columns) -> Columns:
        return before.with_columns(((self._column, "string"), *_COLUMNS))

    def trace_columns(self, before: Columns) -> Mapping[str, Origin]:
        return dict.fromkeys((self._column, *(name for name, _ in _COLUMNS)), Origin((self._column,)))

    def work(self, tools: Tools) -> Callable[[Row], Iterable[Row]]:
        split = build_splitter(self.by == "headings", self.size, self.overlap)
        names = (self._column, *(name for name, _ in _COLUMNS))

        def read(row: Row) -> Iterator[Row]:
            text = row.value(self._column)
            if text is None or not str(text).strip():
                if row.fetched.error is not None:
                    yield row.replace_values(dict.fromkeys((*row.values, *names)))
                return
            document = row.value(self._document) if self._document else row.get_engine_values()["_url"]
            name = str(document) if document is not None else xxh3_128_hexdigest(str(text).encode())
            for position, chunk in enumerate(split(str(text)), start=1):
                cells = (chunk.text, f"{name}#{chunk.place}", name, list(chunk.headings), position)
                child = row.make_child(position, row.element)
                yield child.with_values(dict(zip(names, cells, strict=True)))

        return read
