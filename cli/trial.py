"""`spindle try`: the first rows of a pipeline, or the matches of selectors on a page, without Spark."""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

from rich.cells import set_cell_size
from rich.console import Console

from cli.fetching import read_crawl_options
from cli.terminal import OWN_NETWORKS, escape_text, find_inputs, format_count, read_transforms
from pipelines.engine.frontier import describe_bounded
from pipelines.engine.options import make_fetch_options
from pipelines.engine.rendering import describe_rendering
from pipelines.errors import PipelineError, RunError
from pipelines.extract import Element, SelectorFailed, compile_selector
from pipelines.extract.document import Value
from pipelines.extract.rows import Row, describe_malformed
from pipelines.extract.selectors import SelectorError
from pipelines.fetch import Page
from pipelines.language.columns import ENGINE_COLUMNS
from pipelines.language.json_values import PREVIEW_LENGTH, to_json
from pipelines.language.names import truncate
from pipelines.pipeline import Pipeline
from pipelines.planning.check import REJECTED_COLUMNS
from pipelines.planning.draft import DraftSelector, find_selectors, replace_selector, write_draft
from pipelines.stages.extract import Extract
from pipelines.trial import Trial, TrialPages

NOTHING_FOUND = 3
"""Exit code when a selector finds nothing on the page."""
_MAX_MATCHES = 5
_MAX_FAILURES = 3  # of a stage
_MAX_BODY_LINES = 40  # on a terminal
_COLUMN_WIDTHS = (6, 40)
_PAGE_COLUMNS = ("_requestedUrl", "_status")
_HELP = (
    "Type a number and another selector to see its result, such as: 1 h2.title\n"
    "Other commands: show, save [FILE], quit."
)

_notes = Console(stderr=True, highlight=False, soft_wrap=True)


@dataclass(slots=True)
class TrialOptions:
    """The options of the command, and the pages that its trials share."""

    parameters: dict[str, str]
    guard: bool
    max_rows: int
    max_pages: int
    transforms: Path | None
    rows: Path | None = None
    pages: TrialPages = field(default_factory=TrialPages)

    def create_trial(self, text: str) -> Trial:
        """Plan the text and return its trial; raise PipelineError."""
        pipeline = Pipeline.from_yaml(text)
        pipeline.check_names(self.parameters)
        plan = pipeline.plan(self.parameters, pipeline.add_packages(read_transforms(self.transforms)))
        options = make_fetch_options(plan.options, () if self.guard else OWN_NETWORKS, read_crawl_options())
        trial = Trial(plan, options, self.max_pages, self.pages, find_inputs(plan, self.rows))
        gc.enable()  # which commands delay until here
        return trial


def try_file(file: Path, options: TrialOptions) -> int:
    """Print the first rows of a pipeline file; on a terminal, go on with changed selectors. Return 1 on a failure."""
    text = file.read_text()
    code = report_errors(file, lambda: _print_rows(options.create_trial(text), options.max_rows))
    if _is_interactive():
        return _change_selectors(text, file, lambda draft: _print_rows(options.create_trial(draft), options.max_rows))
    return code


def try_url(url: str, selectors: Sequence[str], options: TrialOptions) -> int:
    """Print a page or the matches of selectors; return NOTHING_FOUND when a selector has no match."""
    text = write_draft(url, selectors)
    code = report_errors(url, lambda: _print_page(options.create_trial(text), text, bool(selectors)))
    if selectors and code != 1 and _is_interactive():
        return _change_selectors(text, None, lambda draft: _print_page(options.create_trial(draft), draft, True))
    return code


def _is_interactive() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def report_errors(name: Path | str, action: Callable[[], int]) -> int:
    """Run the action and return its code, or print its errors and return 1."""
    try:
        return action()
    except PipelineError as error:
        for problem in error.problems:
            position = f"{name}:{problem.line or 1}: " if isinstance(name, Path) else ""
            _notes.print(escape_text(f"{position}{problem.message}", "red"))
    except RunError as error:
        _notes.print(escape_text(str(error), "red"))
    return 1


def _print_rows(trial: Trial, max_rows: int) -> int:
    """Print rows as they arrive, then the stages that the trial left out; return 1 if pages failed and no row came."""
    with trial:
        printer = _RowPrinter(*choose_columns(trial))
        rows = trial.iter_shown_rows()
        for row in islice(rows, max_rows):
            printer.add(row, trial.find_rejection(row))
        _print_summary(trial, printer, more=printer.count == max_rows)
    return 1 if trial.failures and not printer.count else 0


def choose_columns(trial: Trial) -> tuple[Sequence[str] | None, Sequence[str]]:
    """Return the columns of the rows (None if rows show their own), and the engine columns after them."""
    columns = tuple(name for name in trial.columns if name not in ENGINE_COLUMNS)
    ends_with_page = bool(trial.steps) and trial.steps[-1].stage is not None and trial.steps[-1].stage.gives_page
    engine_columns = tuple(dict.fromkeys((*(_PAGE_COLUMNS if ends_with_page else ()), *trial.kept_columns)))
    return None if trial.columns.open else columns, engine_columns


def _print_summary(trial: Trial, printer: _RowPrinter, more: bool) -> None:
    pages = sum(counts.pages for counts in trial.counts.values())
    first = "the first " if more or trial.pages_left == 0 else ""
    _notes.print(f"{first}{format_count(printer.count, 'rows')} from {format_count(pages, 'pages')}")
    print_failures(trial)
    if rendering := {name: text for counts in trial.counts.values() for name, text in counts.rendering.items()}:
        _notes.print(escape_text(describe_rendering(rendering)))
    for step in trial.steps:
        if bounded := trial.counts[step.key].bounded:
            _notes.print(escape_text(describe_bounded(step, bounded), "yellow"))
    if rejected := printer.rejected_count:
        _notes.print(escape_text(f"checks would set aside {format_count(rejected, 'rows')} of them", "yellow"))
    for found in trial.list_empty_selectors():
        if found.selector.column is None:  # columns without a value follow
            _notes.print(escape_text(str(found), "yellow"))
    for name in printer.empty_columns if printer.count else ():
        _notes.print(escape_text(f"{name} is empty in {'all of them' if printer.count > 1 else 'it'}", "yellow"))
    print_next_step(trial)


def print_failures(trial: Trial) -> None:
    """Print the first pages of each stage that could not be fetched or read."""
    for key, counts in trial.counts.items():
        for failed in [each for each in trial.failures if each.step == key][:_MAX_FAILURES]:
            _notes.print(escape_text(": ".join(filter(None, (failed.url, failed.message))), "yellow"))
        if counts.malformed[0]:
            _notes.print(escape_text(describe_malformed(*counts.malformed), "yellow"))


def print_next_step(trial: Trial) -> None:
    """Print the first stage that a trial leaves out."""
    if step := trial.next_step:
        where = f"line {step.line}: " if step.line else ""
        before = "The rows are those before it" if trial.steps else "There is nothing to show before it"
        left_out = f"{where}{step.title} works on whole tables, which a trial leaves out."
        _notes.print(escape_text(f"{left_out} {before}; `spindle run` runs it."))


class _RowPrinter:
    """Prints rows as they arrive: aligned on a terminal, otherwise as a JSON object a line.

    Without `columns`, it prints those of the first row; the `engine_columns` follow.
    """

    def __init__(self, columns: Sequence[str] | None, engine_columns: Sequence[str]) -> None:
        self.count = self.rejected_count = 0
        self._columns = None if columns is None else tuple(dict.fromkeys((*columns, *engine_columns)))
        self._engine_columns = engine_columns
        self._widths: Sequence[int] = ()
        self._filled = set[str]()
        self._console = Console(highlight=False, soft_wrap=True)

    @property
    def empty_columns(self) -> list[str]:
        return [name for name in self._columns or () if name not in self._filled]

    def add(self, row: Row, rejection: tuple[str, str] | None) -> None:
        """Print a row with its error, and with the check that sets it aside and the reason."""
        if self._columns is None:
            self._columns = tuple(dict.fromkeys((*row.values, *self._engine_columns)))
        self.count += 1
        values = {name: to_json(row.value(name), PREVIEW_LENGTH) for name in self._columns}
        self._filled.update(name for name, value in values.items() if value is not None)
        if row.fetched.error:
            values.setdefault("_error", row.fetched.error)
        if rejection:
            self.rejected_count += 1
            values |= dict(zip(REJECTED_COLUMNS, rejection, strict=True))
        if not self._console.is_terminal:
            print(json.dumps(values, ensure_ascii=False), flush=True)
            return
        cells = [_format_cell(values[name]) for name in self._columns]
        if not self._widths:
            self._widths = _choose_widths(self._columns, cells, self._console.width)
            self._print_line(self._columns, "bold")
        self._print_line(cells)
        if row.fetched.error:
            self._console.print(escape_text(f"  {row.fetched.error}", "red"))
        if rejection:
            self._console.print(escape_text(f"  set aside by {rejection[0]}: {rejection[1]}", "yellow"))

    def _print_line(self, cells: Sequence[str], style: str = "") -> None:
        aligned = (set_cell_size(cell, width) for cell, width in zip(cells, self._widths, strict=True))
        self._console.print(escape_text("  ".join(aligned).rstrip(), style))


def _format_cell(value: Any) -> str:
    text = "" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return " ".join(text.split())


def _choose_widths(names: Sequence[str], cells: Sequence[str], total: int) -> list[int]:
    """Return the widths of the columns: those of the first row, unless they exceed the terminal."""
    narrowest, widest = _COLUMN_WIDTHS
    widths = [min(max(len(name), len(cell), narrowest), widest) for name, cell in zip(names, cells, strict=True)]
    available = max(total - 2 * (len(widths) - 1), narrowest * len(widths))
    while sum(widths) > available:
        widths[widths.index(max(widths))] -= 1
    return widths


def _print_page(trial: Trial, text: str, has_selectors: bool) -> int:
    """Print the page's status, and its body or the matches of the selectors in the text."""
    with trial:
        row, stage = next(trial.iter_rows()), trial.steps[-1].stage
    page = row.fetched.page
    if page is None:
        raise RunError(f"{row.fetched.requested_url}: {row.fetched.error}")
    _notes.print(escape_text(_describe_page(page, row)))
    if row.fetched.malformed:
        _notes.print(escape_text(f"warning: {row.fetched.malformed}", "yellow"))
    if not has_selectors:
        _print_body(row)
        return 0
    found = [_print_matches(row, selector) for selector in find_selectors(text)]
    sources = {each.output()[0]: each.source for each in stage.extractors} if isinstance(stage, Extract) else {}
    for name, value in row.values.items():
        print(escape_text(f"{name} = {_format_value(row.element, sources.get(name), value)}"))
    return 0 if all(found) else NOTHING_FOUND


def _describe_page(page: Page, row: Row) -> str:
    redirected = f", from {page.url}" if page.url != page.requested_url else ""
    title = row.element.first("title") if row.element and row.element.node is not None else None
    named = f": {truncate(title.text(), PREVIEW_LENGTH)}" if title else ""
    return f"{page.status} {page.content_type or 'without a type'}, {len(page.body):,} bytes{redirected}{named}"


def _print_body(row: Row) -> None:
    body = row.element.html() if row.element else ""
    if not sys.stdout.isatty():
        print(body)
        return
    lines = body.splitlines()
    print(escape_text("\n".join(lines[:_MAX_BODY_LINES])))
    if more := len(lines) - _MAX_BODY_LINES:
        _notes.print(f"{format_count(max(more, 0), 'lines')} more, which a pipe or file would get")


def _print_matches(row: Row, selector: DraftSelector) -> int:
    """Print how many elements match a selector, and the first of them."""
    text = selector.text
    try:
        found = _select(row.element, selector) if row.element else []
    except (SelectorError, SelectorFailed) as error:
        raise RunError(f"{text}: {error}") from None
    print(escape_text(f"{text}: {format_count(len(found), 'elements') if found else 'nothing'}"))
    for element in found[:_MAX_MATCHES]:
        if isinstance(element, Value):
            print(escape_text(f"  {_dump_short(element.value)}"))
            continue
        link = element.link()
        print(escape_text(f"  {truncate(element.text(), PREVIEW_LENGTH)}{f' -> {link}' if link else ''}"))
    return len(found)


def _format_value(element: Element | None, source: str | None, value: object) -> str:
    """Return the value of a column as JSON; one that is the text of a number, list or object in a JSON page is that."""
    found = element.first(source) if element and source and source.startswith("$") else None
    is_own = isinstance(found, Value) and not isinstance(found.value, str) and found.text() == value
    return _dump_short(found.value if isinstance(found, Value) and is_own else value)


def _dump_short(value: object) -> str:
    return json.dumps(to_json(value, PREVIEW_LENGTH), ensure_ascii=False)


def _select(element: Element, selector: DraftSelector) -> list[Element]:
    if selector.key == "xpath":
        return element.select_xpath(selector.text)
    return element.select(compile_selector(selector.text))


def _change_selectors(text: str, file: Path | None, show: Callable[[str], int]) -> int:
    """Ask for changed selectors and show their result until the end of the input; return the last code."""
    with suppress(ImportError):
        import_module("readline")  # gives input() a history
    code, saved = 0, text
    _print_selectors(text)
    _notes.print(_HELP)
    while True:
        try:
            command, _, argument = input("> ").strip().partition(" ")
        except EOFError:
            command, argument = "quit", ""
        if command == "quit":
            if text != saved:
                _notes.print("The changes were not saved.")
            return code
        if command == "save":
            target = Path(argument.strip()) if argument else file
            saved = text if _save(text, target) else saved
        elif command == "show":
            _print_selectors(text)
            code = report_errors(file or "selector", partial(show, text))
        elif command.isdecimal() and 1 <= int(command) <= len(found := find_selectors(text)) and argument:
            changed = replace_selector(text, found[int(command) - 1], argument.strip())
            code = report_errors(file or "selector", partial(show, changed))
            text = changed if code != 1 else text
        elif command:
            _notes.print(_HELP)


def _print_selectors(text: str) -> None:
    with suppress(PipelineError):  # its problems are printed already
        Pipeline.from_yaml(text)
        for number, selector in enumerate(find_selectors(text), start=1):
            _notes.print(escape_text(f"{number:>3}  line {selector.line:<4} {selector.stage:<12} {selector.text}"))


def _save(text: str, target: Path | None) -> bool:
    if target is None:
        _notes.print("Give the name of a file: save first.yaml")
        return False
    try:
        target.write_text(text)
    except OSError as error:
        _notes.print(escape_text(f"{target} cannot be written: {error.strerror}", "red"))
        return False
    _notes.print(escape_text(f"Saved in {target}. Next: spindle run {target}"))
    return True
