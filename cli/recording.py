"""`spindle record` and `spindle test`: a pipeline's rows from pages that were recorded beside it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import zip_longest
from pathlib import Path
from typing import Any

from rich.console import Console

from cli.recorded_pages import RecordedPages
from cli.terminal import escape_text, format_count
from cli.trial import TrialOptions, choose_columns, print_failures, print_next_step, report_errors
from pipelines.errors import RunError
from pipelines.language.json_values import to_json
from pipelines.language.names import truncate
from pipelines.page_cache.warc import is_credential
from pipelines.planning.check import REJECTED_COLUMNS
from pipelines.trial import Trial

DIFFERENT = 1
_MAX_DIFFERENCES = 20  # that are printed
_MAX_VALUE = 60  # characters of a value
_MIN_SECRET = 4  # characters; shorter ones would mask parts of words

_notes = Console(stderr=True, highlight=False, soft_wrap=True)
_console = Console(highlight=False, soft_wrap=True)
JsonRow = dict[str, Any]


def get_archive(file: Path) -> Path:
    """Return the path of the recorded pages of a pipeline file."""
    return file.with_suffix(".warc.gz")


def get_rows_file(file: Path) -> Path:
    """Return the path of the rows that its recorded pages give."""
    return file.with_suffix(".rows.jsonl")


def record(file: Path, options: TrialOptions) -> int:
    """Run the pipeline over its first pages, and keep these and their rows beside it; return 1 on a failure."""
    return report_errors(file, lambda: _record(file, options))


def test(file: Path, options: TrialOptions, update: bool) -> int:
    """Run the pipeline over its recorded pages and print how its rows differ; `update` keeps the new rows instead."""
    return report_errors(file, lambda: _test(file, options, update))


def _record(file: Path, options: TrialOptions) -> int:
    text, secrets = file.read_text(), _find_secrets(options)
    pages = RecordedPages(options.max_pages, secrets)
    options.pages = pages
    with (trial := options.create_trial(text)):
        pages.add_secrets(trial.secrets)
        for _ in trial.iter_rows():
            pass
        print_failures(trial)
    if not pages.count:
        why = "all have failed" if trial.failures else "the pipeline asked for none"
        raise RunError(f"no page was recorded: {why}")
    try:
        pages.save(get_archive(file))
        rows = _replay(file, text, options)
        _write_rows(get_rows_file(file), rows)
    except OSError as error:
        raise RunError(f"{error.filename} cannot be written: {error.strerror}") from None
    kept = f"{format_count(pages.count, 'answers')} in {get_archive(file)}, {format_count(len(rows), 'rows')} in"
    _notes.print(escape_text(f"{kept} {get_rows_file(file)}"))
    if trial.pages_left == 0:
        _notes.print(f"It asked for {format_count(options.max_pages, 'pages')}, as many as --pages allows")
    print_next_step(trial)
    _notes.print(escape_text(f"Next: spindle test {file}"))
    return 0 if rows else DIFFERENT


def _test(file: Path, options: TrialOptions, update: bool) -> int:
    rows = _replay(file, file.read_text(), options)
    kept_file = get_rows_file(file)
    if update:
        _write_rows(kept_file, rows)
        _notes.print(escape_text(f"{format_count(len(rows), 'rows')} in {kept_file}"))
        return 0
    differences = list(_compare(_read_rows(kept_file), rows))
    for line in differences[:_MAX_DIFFERENCES]:
        _console.print(escape_text(line))
    if (more := len(differences) - _MAX_DIFFERENCES) > 0:
        _console.print(f"and {more:,} more")
    if not differences:
        _notes.print(escape_text(f"{file}: {format_count(len(rows), 'rows')}, as recorded"))
        return 0
    changed = f"{format_count(len(differences), 'differences')} from {kept_file}"
    _notes.print(escape_text(f"{file}: {changed}; `spindle test {file} --update` keeps these rows instead", "red"))
    return DIFFERENT


def _replay(file: Path, text: str, options: TrialOptions) -> list[JsonRow]:
    """Return the rows that the recorded pages give, and print which of these are missing."""
    pages = RecordedPages.load(get_archive(file), _find_secrets(options))
    options.pages, options.max_pages = pages, pages.limit
    with (trial := options.create_trial(text)):
        rows = list(_iter_json_rows(trial))
        print_failures(trial)
    print_next_step(trial)
    return rows


def _iter_json_rows(trial: Trial) -> Iterator[JsonRow]:
    columns, engine_columns = choose_columns(trial)
    for row in trial.iter_shown_rows():
        names = dict.fromkeys((*(row.values if columns is None else columns), *engine_columns))
        values = {name: to_json(row.value(name), None) for name in names}
        if row.fetched.error:
            values.setdefault("_error", row.fetched.error)
        if rejection := trial.find_rejection(row):
            values |= dict(zip(REJECTED_COLUMNS, rejection, strict=True))
        yield values


def _find_secrets(options: TrialOptions) -> tuple[str, ...]:
    """Return the values of parameters whose names are those of credentials."""
    found = options.parameters.items()
    return tuple(value for name, value in found if is_credential(name) and len(value) >= _MIN_SECRET)


def _write_rows(file: Path, rows: Sequence[JsonRow]) -> None:
    file.write_text("".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows))


def _read_rows(file: Path) -> list[JsonRow]:
    try:
        return [json.loads(line) for line in file.read_text().splitlines() if line.strip()]
    except OSError as error:
        raise RunError(f"{file} cannot be read: {error.strerror}; `spindle test --update` writes it") from None
    except ValueError:
        raise RunError(f"{file} has a line that is no JSON; `spindle test --update` writes it anew") from None


def _compare(kept: Sequence[JsonRow], rows: Sequence[JsonRow]) -> Iterator[str]:
    """Yield a line for each row that is new, missing or changed, with the values of the changed columns."""
    before, after = ([json.dumps(row, sort_keys=True) for row in each] for each in (kept, rows))
    for kind, start, end, new_start, new_end in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if kind == "equal":
            continue
        numbers = zip_longest(range(start, end), range(new_start, new_end))
        for old, new in numbers:
            if old is None:
                yield f"+ row {new + 1}: {_format(rows[new])}"
            elif new is None:
                yield f"- row {old + 1}: {_format(kept[old])}"
            else:
                yield f"~ row {new + 1}: {'; '.join(_describe_changes(kept[old], rows[new]))}"


def _describe_changes(old: JsonRow, new: JsonRow) -> Iterator[str]:
    for name in dict.fromkeys((*old, *new)):
        if name not in old:
            yield f"new column {name} = {_format(new[name])}"
        elif name not in new:
            yield f"no column {name}, which was {_format(old[name])}"
        elif old[name] != new[name]:
            yield f"{name} {_format(old[name])} -> {_format(new[name])}"


def _format(value: object) -> str:
    return truncate(
        json.dumps(value, ensure_ascii=False), _MAX_VALUE if not isinstance(value, dict) else 3 * _MAX_VALUE
    )
