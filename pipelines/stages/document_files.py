"""document and load_documents: PDF, office files and e-mail as rows."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Field, StringConstraints, field_validator

from pipelines.contract.workers import Tools
from pipelines.documents.reading import DocumentReader, UnreadDocument
from pipelines.errors import ArgumentError, RunError
from pipelines.extract.rows import Row
from pipelines.extract.tables import name_columns
from pipelines.filesystem import read_file
from pipelines.language.arguments import Arguments
from pipelines.language.columns import Columns
from pipelines.planning.stage import RowStage, Source, Stage, register_stage
from pipelines.spark.dataframes import create_rows
from pipelines.stages.documents import list_files
from pipelines.stages.links import Urls, Wget

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from pipelines.contract.context import RunContext

_log = logging.getLogger(__name__)
Values = dict[str, Any]

_COLUMNS = (
    ("text", "string"),
    ("title", "string"),
    ("author", "string"),
    ("created", "timestamp"),
    ("modified", "timestamp"),
    ("pages", "bigint"),
    ("page", "bigint"),
    ("sheet", "string"),
    ("part", "string"),
)
_TABLES = ("tables", "array<array<array<string>>>")
_NOTHING = dict.fromkeys(name for name, _ in _COLUMNS)
_NEEDS_OCR = "the document needs OCR: {} without text"
_LONGEST = 16_000_000  # characters of a document in one row
_MOST_ROWS = 1_000_000

Pages = Annotated[
    str,
    BeforeValidator(lambda value: "all" if value is True else value),
    StringConstraints(pattern=r"^(all|[1-9]\d{0,6}(-[1-9]\d{0,6})?|\$\{.*)$"),
]


class _ReadingArguments(Arguments):
    """How documents are read: `pages` gives a row for each page, `tables` the cells of tables."""

    pages: Pages | None = Field(
        default=None, description="a row for each page, slide or chapter: true, or some of a PDF such as 2-5"
    )
    tables: bool = Field(default=False, description="adds the column tables: for each table its rows of cells")

    @field_validator("pages")
    @classmethod
    def _check_pages(cls, pages: str | None) -> str | None:
        first, _, last = (pages or "").partition("-")
        if first.isdecimal() and last and int(last) < int(first):
            raise ArgumentError(f"'pages' end before they begin: {pages}")
        return pages

    def list_columns(self) -> tuple[tuple[str, str], ...]:
        return (*_COLUMNS, *([_TABLES] if self.tables else []))

    def read(
        self, reader: DocumentReader, body: bytes, name: str, taken: Iterable[str]
    ) -> Iterator[tuple[Values, str | None]]:
        """Yield the rows of a document with the error of each; `taken` are the columns that rows have already."""
        first, _, last = (self.pages or "").replace("all", "").partition("-")
        names, joined, found = (*taken, *_NOTHING, "tables"), list[Values](), False
        try:
            for part in reader.read(body, name, self.tables, int(first or 1), int(last or first) if first else None):
                found, fault = True, part.pop("fault", None)
                scan = part.pop("scan", False)
                cells = part.pop("cells", None)
                values = _NOTHING | {key: value for key, value in part.items() if key != "tables" or self.tables}
                if cells is not None:
                    yield values | name_columns(_number_headings(cells), reserved=names), None
                elif fault is not None:
                    yield values, f"the part '{part['part']}' cannot be read: {fault}"
                elif self.pages or "page" not in part or part.get("part"):
                    yield values, _NEEDS_OCR.format("the page is an image") if scan else None
                else:
                    joined.append(values | {"scan": scan})
        except UnreadDocument as error:
            yield dict(_NOTHING), str(error)
        else:
            if first and not found:
                yield dict(_NOTHING), f"the document has no page {first}"
        if joined:
            yield _join_pages(joined)


def _number_headings(cells: Iterable[tuple[str, object]]) -> Mapping[str, Any]:
    """Return the cells by their headings; a heading that is there before, or none, gets the number of its column."""
    named: dict[str, object] = {}
    for number, (heading, value) in enumerate(cells, start=1):
        named[heading if heading and heading not in named else f"{heading or 'column'}_{number}"] = value
    return named


def _join_pages(pages: list[Values]) -> tuple[Values, str | None]:
    """Return one row for the pages of a document, and its error."""
    text = "\n\n".join(page["text"] for page in pages if page["text"])
    scans = sum(page.pop("scan") for page in pages)
    joined = pages[0] | {"page": None, "text": text[:_LONGEST]}
    if "tables" in joined:
        joined["tables"] = [table for page in pages for table in page["tables"] or ()]
    if len(text) > _LONGEST:
        return joined, f"the text has more than {_LONGEST:,} characters: 'pages: true' gives a row for each page"
    return joined, _NEEDS_OCR.format(f"{scans} of {len(pages)} pages are images") if scans else None


@register_stage("document")
class ReadDocument(_ReadingArguments, RowStage):
    """Replace each row by the rows of a document: the file that a wget or download before it has fetched.

    `document: [$url]` fetches the address in the column itself. PDF, DOCX, PPTX, EPUB, RTF and ODT give a row with
    `text`, `title`, `author`, `created`, `modified` and the number of `pages`, or with `pages: true` a row for each
    `page`. XLSX, XLS and ODS give a row for each row of a `sheet`, whose columns the run discovers: the first row that
    is not empty has their names, with their numbers where rows have such a column already, as in `title_3`. Numbers,
    truth values and dates keep their types (text where they are mixed).
    E-mail gives a row for the message, with its subject and sender, and the rows of each attachment with its name in
    `part`.

    Files are read in a process of its own with 1 GiB, 30 s for a few pages and 5 minutes in all. One that is encrypted,
    broken, too large (64 MiB) or none of these has a sentence in `_error`; a page without text that has images `needs
    OCR`. The rows before a failure stay.
    """

    example = """
pipeline:
  - {stage: document, args: ["${SHOP}/manual.pdf", {pages: true}]}
"""

    positional = ("url",)
    widens = True
    is_slow = True
    mixes_types = True
    url: Urls | None = Field(default=None, description="an address, or a $column of addresses, to fetch it from")

    def describe(self) -> str:
        return str(self.url or "of the page")

    def list_stages_before(self) -> tuple[tuple[str, Stage], ...]:
        return (("wget", Wget(url=self.url, parser=None)),) if self.url else ()

    @property
    def reads_page(self) -> bool:
        return True

    def infer_columns(self, before: Columns) -> Columns:
        return Columns(before.with_columns(self.list_columns()).types, open=True)

    def work(self, tools: Tools) -> Callable[[Row], Iterable[Row]]:
        reader = DocumentReader()
        nothing = dict.fromkeys(name for name, _ in self.list_columns())

        def read(row: Row) -> Iterator[Row]:
            page = row.fetched.page
            if page is None:
                yield row.with_values(nothing)
                return
            rows = self.read(reader, page.body, page.url.partition("?")[0], row.values)
            for position, (values, error) in enumerate(rows, start=1):
                child = row.make_child(position, None).with_values(values)
                yield child.add_error(error) if error else child

        return read


@register_stage("load_documents")
class LoadDocuments(_ReadingArguments, Source):
    """Replace the rows by those of documents: a file, or all files of a folder, as `document` reads them.

    The column `file` has the name of the file. A file that cannot be read gives a row with `_error`.
    """

    example = """
pipeline:
  - {stage: load_documents, args: ["${FOLDER}/invoices", {tables: true}]}
"""

    positional = ("path",)
    path: str = Field(min_length=1, description="a file, a folder, a pattern such as invoices/*.pdf, or an address")

    def describe(self) -> str:
        return self.path

    def list_inputs(self) -> tuple[str, ...]:
        return (self.path,)

    def infer_columns(self, before: Columns) -> Columns:
        return Columns((("file", "string"), *self.list_columns()), open=True)

    def needs_spark(self, before: Columns) -> bool:
        return False

    def load(self, spark: SparkSession, context: RunContext) -> DataFrame:
        table, _ = self.load_locally(context)
        return create_rows(spark, table)

    def load_locally(self, context: RunContext) -> tuple[pa.Table, Columns]:
        import pyarrow as pa

        from pipelines.columns.types import parse_type
        from pipelines.transforms.schema import infer_schema, keep_matching_values, mix_types

        planned = dict((("file", "string"), *self.list_columns()))
        rows, errors = list[Values](), list[str | None]()
        reader = DocumentReader()
        if not (files := [*list_files(self.path, context)]):
            raise RunError(f"'{self.path}' has no documents")
        for path in files:
            name = path.rpartition("/")[2]
            for values, error in self.read(reader, read_file(path) or b"", name, ("file",)):
                if len(rows) == _MOST_ROWS:
                    raise RunError(f"'{self.path}' has more than {_MOST_ROWS:,} rows: read fewer files at a time")
                rows.append({"file": name, **values})
                errors.append(error)
                if error:
                    _log.warning("%s: %s", name, error)
        if rows and all(row[column] is None for row in rows for column in ("text", "sheet", "part")):
            raise RunError(f"no document of '{self.path}' could be read: {rows[0]['file']}: {errors[0]}")
        found = dict(infer_schema(({n: v for n, v in row.items() if n not in planned} for row in rows), mixes=True))
        types = tuple((planned | found).items())
        kept = [keep_matching_values(mix_types(row, found), types) for row in rows]
        arrays = [pa.array([row.get(name) for row in kept], parse_type(type_)) for name, type_ in types]
        ordinals = pa.array([[number] for number in range(1, len(rows) + 1)], pa.list_(pa.int64()))
        table = pa.table([*arrays, pa.array(errors, pa.string()), ordinals], names=[*dict(types), "_error", "_ordinal"])
        return table, Columns(types)
