"""Records of CSV files, whose quoted values may have line breaks, and their faults. Uploads and `load_csv`
share these rules.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache

_LINE_ENDS = "\r\n"
BLANK = "".join(map(chr, range(33)))  # characters of lines that Spark skips
_MOST_CHARACTERS = 16 * 2**20
_ODD_QUOTES = re.compile('(?<!")"(?:"")*(?!")')  # which end a value, or begin one


class OpenQuote(ValueError):
    """A quoted value does not end."""


class TextBehindQuote(ValueError):
    """There is text between the end of a quoted value and the next separator."""


def count_values(record: str, separator: str, is_strict: bool = True) -> int:
    """Return the number of values of a record without its line end; the separator is one character.

    Raises OpenQuote, and TextBehindQuote if it is strict.
    """
    if '"' not in record:
        return record.count(separator) + 1
    value, position, count = _compile_value(separator), 0, 0
    while True:
        found = value.match(record, position)
        assert found is not None  # noqa: S101 - it matches empty text
        if found["open"] is not None:
            raise OpenQuote
        if found["behind"] and is_strict:
            raise TextBehindQuote
        count += 1
        if found.end() >= len(record):
            return count
        position = found.end() + 1


@cache
def _compile_value(separator: str) -> re.Pattern[str]:
    plain = f"[^{re.escape(separator)}]*"
    return re.compile(rf'"[^"]*(?:""[^"]*)*"(?!")(?P<behind>{plain})|(?P<open>")|{plain}')


def read_records(lines: Iterable[str], separator: str) -> Iterator[tuple[int, str]]:
    """Yield the records without line ends, blank ones as empty text, with the number of the line in which each begins.

    A quote that is not closed ends with the file, or after 16 Mi characters.
    """
    pending: list[str] = []
    start, size = 1, 0
    for number, line in enumerate(lines, start=1):
        start = start if pending else number
        is_inside = bool(pending)
        pending.append(line)
        size += len(line)
        if is_inside and not _ODD_QUOTES.search(line) and size <= _MOST_CHARACTERS:
            continue
        record = "".join(pending).rstrip(_LINE_ENDS)
        if '"' in record and _is_open(record, separator) and size <= _MOST_CHARACTERS:
            continue
        yield start, record if record.strip(BLANK) else ""
        pending, size = [], 0
    if pending:
        yield start, "".join(pending)


def _is_open(record: str, separator: str) -> bool:
    try:
        count_values(record, separator, is_strict=False)
    except OpenQuote:
        return True
    return False


def describe_fault(record: str, separator: str, columns: int, is_strict: bool = True) -> str | None:
    """Return the fault of a record, as in "the row in line 7 has a quote that is not closed"; None if nothing is.

    Separators may be at its end. One that is not strict may have fewer values, and text behind a closing quote.
    """
    try:
        count = count_values(record, separator, is_strict)
    except OpenQuote:
        return describe_values(0, columns)
    except TextBehindQuote:
        return "has text behind a closing quote"
    is_faulty = count_filled(record, separator, count) > columns or (count < columns and is_strict)
    return describe_values(count, columns) if is_faulty else None


def count_filled(record: str, separator: str, count: int) -> int:
    """Return the number of values without the empty ones at the end of a record."""
    return max(count - len(record) + len(record.rstrip(separator)), 1)


def describe_values(count: int, columns: int) -> str:
    """Return the fault of a record of so many values; of 0, if it has a quote that is not closed."""
    return f"has {count} values for {columns} columns" if count else "has a quote that is not closed"


def describe_load(path: str, line: int, fault: str) -> str:
    """Return the error message for a file that load_csv does not read."""
    breaks = "values with line breaks need multiLine: true; " if "quote" in fault else ""
    modes = "to read it nevertheless, set mode: PERMISSIVE, or DROPMALFORMED to leave such rows out"
    return f"the row in line {line} of '{path}' {fault}; {breaks}{modes}"
