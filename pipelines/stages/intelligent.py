"""iextract and intelligentExtract: columns that a prompt asks for."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self, cast

from pydantic import Field, field_validator, model_validator

from pipelines.contract.questions import Found, Question, Values
from pipelines.contract.workers import Tools
from pipelines.errors import ArgumentError
from pipelines.extract.document import Element
from pipelines.extract.extractors import Extractor
from pipelines.extract.rows import PageSelector, Row
from pipelines.inference.prompts import make_question, parse_html
from pipelines.language.columns import Columns, check_not_reserved
from pipelines.language.names import normalize, truncate
from pipelines.language.origins import Origin
from pipelines.language.parameters import parse_column_reference
from pipelines.planning.stage import RowStage, register_stage

EVIDENCE = "_evidence"
_EVIDENCE_TYPE = "map<string,struct<text:string,path:string,url:string,method:string>>"
MAP_TYPE = "map<string,string>"
_NAMED = frozenset(("html", "prompt", "prefix", "as", "evidence", "required"))
_PROMPT_SHOWN = 60  # characters


class PromptStage(RowStage):
    """Base of stages that read pages as a prompt asks."""

    keeps_rows = True
    evidence: bool = Field(
        default=False, description=f"add where each value stands, and which means gave it, to the map {EVIDENCE}"
    )
    required: bool | tuple[str, ...] = Field(
        default=False,
        description="fail the run when a column, or one of those in the list, has no value, or values in doubt",
    )

    @property
    def question(self) -> Question:
        """The question that the prompt asks."""
        raise NotImplementedError

    def list_names(self) -> tuple[str, ...]:
        """Return the names of the columns that the prompt gives."""
        raise NotImplementedError

    def list_required(self) -> tuple[str, ...]:
        """Return the columns that the run must have."""
        if isinstance(self.required, tuple):
            return self.required
        return self.list_names() if self.required else ()

    @model_validator(mode="after")
    def _check_required(self) -> Self:
        if isinstance(self.required, tuple):
            for name in self.required:
                if name not in self.list_names():
                    raise ArgumentError(
                        f"'required' names '{name}', which is no column of the prompt", "no-such-column"
                    )
        return self

    def list_selectors(self) -> tuple[PageSelector, ...]:
        required, shown = self.list_required(), self.describe()
        return tuple(PageSelector(name, shown, name in required, is_prompt=True) for name in self.list_names())

    def count_values(self, tools: Tools, row: Row, values: Iterable[object]) -> None:
        """Count the columns of a row, or of the page that several rows share, that have a value."""
        if row.fetched.page is not None:
            tools.tally.add(row.fetched, values)
        else:
            tools.tally.add_row(values)

    def requires_answer(self, prompt: str, field: str) -> bool:
        question, names = self.question, self.list_names()
        if question.prompt != prompt or field not in question.fields:
            return False
        name = names[question.fields.index(field)] if len(names) == len(question.fields) else names[0]
        return name in self.list_required()

    def trace_columns(self, before: Columns) -> Mapping[str, Origin]:
        parts = (self.describe(),) if self.reads_page else ()
        made = (*self.list_names(), *self.add_evidence(Columns()))
        return dict.fromkeys(made, Origin(self.list_references(), parts))

    @property
    def asks_questions(self) -> bool:
        return True

    def add_evidence(self, columns: Columns) -> Columns:
        """Return the columns with that of the evidence, where it is wanted."""
        return columns.with_columns(((EVIDENCE, _EVIDENCE_TYPE),)) if self.evidence else columns

    def merge_evidence(self, row: Row, found: Mapping[str, Found | None]) -> dict[str, object]:
        """Return the column of the evidence with that of more columns, where it is wanted."""
        if not self.evidence:
            return {}
        earlier = row.values.get(EVIDENCE)
        added = {
            name: {"text": each.text, "path": each.path, "url": each.url, "method": each.method}
            for name, each in found.items()
            if each is not None
        }
        return {EVIDENCE: _to_map(earlier) | added}


@register_stage("iextract")
class IExtract(PromptStage):
    """Add the columns that a prompt names, read from the page, the segment, or HTML in a column.

    The prompt names its columns: `title as title and price as cost`, or a list after a colon, `Extract: title, price`.
    In the form of a map it may be a list of prompts. Their names begin with `prefix` as it is; `as` gives one struct
    column instead. A prompt that names no columns gives a map, called as the prefix, or `value`.

    The value is the page's own metadata (JSON-LD, microdata, OpenGraph, tables of labels, JSON in
    scripts), else that of selectors
    which are proven for pages of this kind, else a language model makes such selectors from some pages. Where no means
    serves, the row has an `_error`. A field that no page proves is null.
    """

    example = """
fetch: {url: "${SHOP}/"}
pipeline:
  - {stage: wgetJoin, args: [li.product a]}
  - {stage: iextract, args: ["title as title and price as price", "product_"]}
"""

    rest = "given"
    html: str | Extractor | None = None
    prompt: tuple[str, ...] = Field(min_length=1)
    prefix: str = ""
    as_: str = Field("", alias="as", description="name of one struct column for all values")

    @model_validator(mode="before")
    @classmethod
    def _name_given(cls, data: Any) -> Any:
        """Name the items of a list: an extractor or $column if there is one, the prompt, the prefix."""
        if not isinstance(data, dict) or "given" not in data:
            return data
        named: dict[str, Any] = {}
        free = ["html", "prompt", "prefix"]
        for item in cast("list[Any]", data["given"]):
            if isinstance(item, dict) and {normalize(str(name)) for name in cast("dict[str, Any]", item)} <= _NAMED:
                named |= item
                continue
            is_html = isinstance(item, dict) or (isinstance(item, str) and parse_column_reference(item))
            if "html" in free and not is_html:
                free.remove("html")
            if not free:
                raise ArgumentError("too many arguments; it takes html, prompt, prefix", "too-many-arguments")
            named[free.pop(0)] = item
        return named

    @field_validator("prompt", mode="before")
    @classmethod
    def _list_prompts(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value

    @field_validator("html")
    @classmethod
    def _check_html(cls, value: str | Extractor | None) -> str | Extractor | None:
        if isinstance(value, str) and not (parse_column_reference(value) or "${" in value):
            raise ValueError("'html' is a $column with HTML or an extractor, such as {selector: '#main', method: code}")
        return value

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        for name in self.list_names():
            check_not_reserved(name)
        return self

    @property
    def question(self) -> Question:
        return make_question(self.prompt)

    @property
    def _column(self) -> str | None:
        return parse_column_reference(self.html) if isinstance(self.html, str) else None

    def list_names(self) -> tuple[str, ...]:
        fields = self.question.fields
        if self.as_:
            return (self.as_,)
        return tuple(f"{self.prefix}{name}" for name in fields) or (self.prefix.rstrip("_") or "value",)

    def describe(self) -> str:
        return truncate("; ".join(self.prompt), _PROMPT_SHOWN)

    def list_references(self) -> tuple[str, ...]:
        column = self.html.column() if isinstance(self.html, Extractor) else self._column
        return (column,) if column else ()

    @property
    def reads_page(self) -> bool:
        return not self.list_references()

    def infer_columns(self, before: Columns) -> Columns:
        fields, names = self.question.fields, self.list_names()
        if not fields:
            types = [MAP_TYPE]
        elif self.as_:
            types = [f"struct<{','.join(f'{name}:string' for name in fields)}>"]
        else:
            types = ["string"] * len(fields)
        return self.add_evidence(before.with_columns(tuple(zip(names, types, strict=True))))

    def work(self, tools: Tools) -> Callable[[Row], Iterable[Row]]:
        question, names, find = self.question, self.list_names(), self._build_finder()
        nothing: dict[str, object] = {name: None for name in names}

        def read(row: Row) -> Iterable[Row]:
            element = find(row)
            if element is None:
                return (row.with_values(nothing | self.merge_evidence(row, {})),)
            values = tools.reader.read_values(question, element)
            arranged = self._arrange(values, names)
            self.count_values(tools, row, (arranged[name] if any(values.found.values()) else None for name in names))
            made = row.with_values(arranged | self.merge_evidence(row, self._name(values)))
            return (made.add_error(values.error) if values.error else made,)

        return read

    def _build_finder(self) -> Callable[[Row], Element | None]:
        if self.html is None:
            return lambda row: row.element
        read, column = self.html.build_worker() if isinstance(self.html, Extractor) else None, self._column or ""

        def find(row: Row) -> Element | None:
            value = read(row) if read else row.value(column)
            return None if value is None else parse_html(str(value), row)

        return find

    def _arrange(self, values: Values, names: tuple[str, ...]) -> dict[str, object]:
        texts = {name: each.value if each else None for name, each in values.found.items()}
        if not self.question.fields:
            return {names[0]: {name: text for name, text in texts.items() if text is not None}}
        if self.as_:
            return {self.as_: texts}
        return dict(zip(names, texts.values(), strict=True))

    def _name(self, values: Values) -> Mapping[str, Found | None]:
        """Return the values by the columns that hold them."""
        separator = f"{self.as_}." if self.as_ else self.prefix if self.question.fields else ""
        return {f"{separator}{name}": found for name, found in values.found.items()}


@register_stage("intelligentExtract")
class IntelligentExtract(PromptStage):
    """Add a column with what a prompt asks for as JSON, read from HTML or text in a column.

    The means are those of iextract.
    """

    example = """
fetch: {url: "${SHOP}/"}
pipeline:
  - {stage: flatSelect, args: [li.product, [{method: code, as: html}]]}
  - {stage: intelligentExtract, args: [$html, "Extract: name, price", found]}
"""

    positional = ("column", "prompt", "as")
    column: str = Field(min_length=1)
    prompt: str = Field(min_length=1)
    as_: str = Field("extracted", alias="as", min_length=1, description="name of the column")

    @field_validator("column")
    @classmethod
    def _read_column(cls, value: str) -> str:
        return parse_column_reference(value) or value

    @field_validator("as_")
    @classmethod
    def _check_name(cls, value: str) -> str:
        check_not_reserved(value)
        return value

    @property
    def question(self) -> Question:
        return make_question(self.prompt)

    def list_names(self) -> tuple[str, ...]:
        return (self.as_,)

    def describe(self) -> str:
        return truncate(self.prompt, _PROMPT_SHOWN)

    def list_references(self) -> tuple[str, ...]:
        return (self.column,)

    def infer_columns(self, before: Columns) -> Columns:
        return self.add_evidence(before.with_columns(((self.as_, "string"),)))

    def work(self, tools: Tools) -> Callable[[Row], Iterable[Row]]:
        question = self.question

        def read(row: Row) -> Iterable[Row]:
            text = row.value(self.column)
            if text is None:
                return (row.with_values({self.as_: None, **self.merge_evidence(row, {})}),)
            values = tools.reader.read_values(question, parse_html(str(text), row))
            texts = {name: each.value if each else None for name, each in values.found.items()}
            self.count_values(tools, row, [any(texts.values()) or None])
            answer = json.dumps(texts, ensure_ascii=False) if any(texts.values()) or not values.error else None
            evidence = {f"{self.as_}.{name}": found for name, found in values.found.items()}
            made = row.with_values({self.as_: answer, **self.merge_evidence(row, evidence)})
            return (made.add_error(values.error) if values.error else made,)

        return read


def _to_map(value: object) -> dict[str, object]:
    """Return a map of an earlier stage, which comes from Arrow as a list of pairs."""
    return dict(cast("Iterable[tuple[str, object]]", value)) if value else {}
