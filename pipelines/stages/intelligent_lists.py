"""intelligentFlatSelect and intelligent_table: rows of the list or table that a prompt names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from pydantic import Field

from pipelines.contract.questions import Question, QuestionReader
from pipelines.contract.workers import Tools
from pipelines.errors import AnswerPending
from pipelines.extract import SelectorFailed, compile_selector
from pipelines.extract.document import Element
from pipelines.extract.rows import Row
from pipelines.extract.selectors import SelectorError
from pipelines.extract.tables import name_columns
from pipelines.inference.lists import find_main_list, find_table
from pipelines.inference.prompts import make_question
from pipelines.language.columns import Columns
from pipelines.language.names import normalize, truncate
from pipelines.planning.stage import RowStage, register_stage
from pipelines.stages.intelligent import MAP_TYPE, PromptStage

_AUTO = "auto"
_TAGS = frozenset(
    (
        *("article", "aside", "body", "dd", "div", "dl", "dt", "figure", "h1", "h2", "h3", "h4", "li", "main", "ol"),
        *("p", "section", "span", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul", "a", "b", "*"),
    )
)
_SELECTOR_SIGNS = re.compile(r"[.#\[\]>:=*]")
_MAX_SAMPLES = 4  # segments of a page that are sent to the driver
_PROMPT_SHOWN = 60  # characters


def is_selector(text: str) -> bool:
    """Return whether a text is a CSS selector, not a prompt in words."""
    try:
        compile_selector(text)
    except (SelectorError, ValueError):
        return False
    parts = [part for part in re.split(r"[\s,]+", text.strip()) if part not in (">", "+", "~", "")]
    return all(part.casefold() in _TAGS or _SELECTOR_SIGNS.search(part) for part in parts)


@register_stage("intelligentFlatSelect")
class IntelligentFlatSelect(PromptStage):
    """Return one row per segment of the page that a prompt or a CSS selector names, with the columns of a prompt.

    `auto` means the items of the page's main list. Columns, prefix and means are those of iextract. A page without a
    segment keeps its row, with null in the columns of this stage.
    """

    example = """
fetch: {url: "${SHOP}/"}
pipeline:
  - {stage: intelligentFlatSelect, args: [li.product, "Extract: name", p_]}
"""

    positional = ("segPrompt", "extrPrompt", "prefix")
    widens = True
    seg_prompt: str = Field(alias="segPrompt", min_length=1, description="prompt, CSS selector or auto")
    extr_prompt: str = Field(alias="extrPrompt", min_length=1)
    prefix: str = ""

    @property
    def reads_page(self) -> bool:
        return True

    @property
    def question(self) -> Question:
        return make_question(self.extr_prompt)

    def describe(self) -> str:
        return truncate(f"{self.seg_prompt}: {self.extr_prompt}", _PROMPT_SHOWN)

    def list_names(self) -> tuple[str, ...]:
        fields = self.question.fields
        return tuple(f"{self.prefix}{name}" for name in fields) or (self.prefix.rstrip("_") or "value",)

    def infer_columns(self, before: Columns) -> Columns:
        type_ = "string" if self.question.fields else MAP_TYPE
        return self.add_evidence(before.with_columns(tuple((name, type_) for name in self.list_names())))

    def work(self, tools: Tools) -> Callable[[Row], Iterable[Row]]:
        question, names, find = self.question, self.list_names(), self._build_finder(tools.reader)
        nothing: dict[str, object] = {name: None for name in names}

        def read_segment(row: Row, element: Element) -> Row:
            answer = tools.reader.read_values(question, element)
            texts = {name: found.value if found else None for name, found in answer.found.items()}
            values = dict(zip(names, texts.values(), strict=True)) if question.fields else {names[0]: texts}
            separator = self.prefix if question.fields else ""
            evidence = {f"{separator}{name}": found for name, found in answer.found.items()}
            self.count_values(tools, row, (values[name] if any(answer.found.values()) else None for name in names))
            made = row.with_values(values | self.merge_evidence(row, evidence))
            return made.add_error(answer.error) if answer.error else made

        def segments(row: Row) -> list[Row]:
            try:
                found, error = find(row.element) if row.element else ([], None)
            except SelectorFailed as failed:
                found, error = [], str(failed)
            if not found:
                empty = row.make_child(0, None).with_values(nothing | self.merge_evidence(row, {}))
                return [empty.add_error(error) if error else empty]
            children = ((row.make_child(position, each), each) for position, each in enumerate(found, start=1))
            return _read_together(read_segment, children)

        return segments

    def _build_finder(self, reader: QuestionReader) -> Callable[[Element], tuple[list[Element], str | None]]:
        if normalize(self.seg_prompt) == _AUTO:
            return lambda element: (find_main_list(element), None)
        if is_selector(self.seg_prompt):
            selector = compile_selector(self.seg_prompt)
            return lambda element: (element.select(selector), None)
        question = Question(self.seg_prompt, kind="segments")
        return lambda element: reader.read_items(question, element)


def _read_together(read: Callable[[Row, Element], Row], segments: Iterable[tuple[Row, Element]]) -> list[Row]:
    """Return the rows that are read; ask about some before the first pending answer ends the reading."""
    made: list[Row] = []
    pending: list[AnswerPending] = []
    for row, element in segments:
        try:
            made.append(read(row, element))
        except AnswerPending as error:
            pending.append(error)
            if len(pending) == _MAX_SAMPLES:
                break
    if pending:
        raise pending[0]
    return made


@register_stage("intelligent_table")
class IntelligentTable(RowStage):
    """Return one row per line of the table that a prompt names, or else of the page's main one.

    The headings of the table are the columns, which only the run discovers. A cell over several rows or columns counts
    in each of them. A heading above others comes before them: `Price_net`. A row of one cell is the `section` of the
    next rows. Without a table, the items of the page's main list give `text` and `link`; a page without a list
    keeps its row. It needs no language model.
    """

    example = """
fetch: {url: "${SHOP}/"}
pipeline:
  - {stage: intelligent_table, args: [products]}
"""

    positional = ("prompt",)
    widens = True
    usual_columns = (("text", "string"), ("link", "string"))
    mixes_types = True
    prompt: str = ""

    @property
    def reads_page(self) -> bool:
        return True

    def describe(self) -> str:
        return truncate(self.prompt, _PROMPT_SHOWN)

    def infer_columns(self, before: Columns) -> Columns:
        return Columns(before.types, open=True)

    def work(self, tools: Tools) -> Callable[[Row], Iterable[Row]]:
        prompt = self.prompt

        def lines(row: Row) -> Iterator[Row]:
            try:
                found = [*_read_lines(prompt, row.element, row)] if row.element else []
            except SelectorFailed as failed:
                yield row.make_child(0, None).mark_failed(str(failed), row.values)
                return
            for position, (element, values) in enumerate(found, start=1):
                yield row.make_child(position, element).with_values(values)
            if not found:
                yield row.make_child(0, None)

        return lines


def _read_lines(prompt: str, element: Element, row: Row) -> Iterator[tuple[Element, dict[str, object]]]:
    if rows := find_table(prompt, element):
        yield from ((each.element, name_columns(each.values, row.values)) for each in rows)
        return
    for item in find_main_list(element):
        link = item if item.attr("href") else item.first("a[href]")
        yield item, {"text": item.text(), "link": link.link() if link else None}
