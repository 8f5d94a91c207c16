"""Tables of HTML by the standard's table model: the texts of every row by the headings above them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from pipelines.extract.document import Element
from pipelines.extract.patterns import SelectorFailed
from pipelines.language.columns import INTERNAL_COLUMNS

_SECTION = "section"  # heading of the column for rows that are a heading of those below them
_JOINT = " / "  # between headings above each other
_MAX_WIDTH, _MAX_HEIGHT = 1000, 65534  # of a cell, as in the standard
_MAX_SLOTS = 1_000_000  # of a table
_SPAN = re.compile(r"[ \t\n\f\r]*\+?(\d{1,9})")
_YEAR = re.compile(r"(?:19|20)\d\d")
_FIGURE = re.compile(r"\W*(?:[A-Z]{3}\W*)?\d[\d\s.,:'\u2019\u2013-]*\W*(?:[^\W\d]{1,3}\W*)?")


@dataclass(frozen=True, slots=True, eq=False)
class _Cell:
    text: str
    is_heading: bool
    scope: str
    column: int


@dataclass(slots=True, eq=False)
class _Line:
    """A row of a part of the table, with the cells of its own and those that cover its columns."""

    element: Element
    part: str
    own: list[_Cell] = field(default_factory=list[_Cell])
    slots: dict[int, _Cell] = field(default_factory=dict[int, _Cell])

    def covers(self, columns: Sequence[int]) -> bool:
        """Return whether one cell of the row is all of it."""
        return len(self.own) == 1 < len(columns) and (
            all(self.slots.get(column) is self.own[0] for column in columns)
            or (self.own[0].is_heading and len(self.slots) == 1)
        )


class TableRow(NamedTuple):
    """A row of data: the texts of its cells by their headings, None where it has no cell."""

    element: Element
    values: Mapping[str, str | None]


def find_table_of(row: Element) -> Element | None:
    """Return the table of a <tr>; None for another element."""
    if row.tag != "tr":
        return None
    parent = row.parent()
    while parent is not None and parent.tag in ("thead", "tbody", "tfoot"):
        parent = parent.parent()
    return parent if parent is not None and parent.tag == "table" else None


def read_row(row: Element) -> Mapping[str, str | None] | None:
    """Return the texts of a <tr> by their headings; None for a row of headings. Raises SelectorFailed."""
    table = find_table_of(row)
    if table is None:
        raise SelectorFailed(f"{f'<{row.tag}>' if row.tag else 'a value'} is no row of a table")
    rows = row.document.keep_table(table.key, lambda: {each.element.key: each.values for each in read_table(table)})
    return rows.get(row.key)


def name_columns(
    cells: Mapping[str, str | None], taken: Iterable[str] = (), reserved: Iterable[str] = ()
) -> dict[str, object]:
    """Return the texts of a row by names of columns instead of its headings; Price (€) is Price_euro.

    A name that is `reserved`, or differs only in case from one that is `taken`, gets the number of its column.
    """
    return dict(zip(_clean_names(tuple(cells), tuple(taken), tuple(reserved)), cells.values(), strict=True))


@lru_cache(maxsize=64)
def _clean_names(headings: tuple[str, ...], taken: tuple[str, ...], reserved: tuple[str, ...]) -> tuple[str, ...]:
    names: list[str] = []
    others = {name.casefold(): name for name in taken}
    seen = {name.casefold() for name in (*INTERNAL_COLUMNS, *reserved)}
    for number, heading in enumerate(headings, start=1):
        name = re.sub(r"\W+", "_", re.sub(r"[^\w\s]", _name_sign, heading)).strip("_") or f"column_{number}"
        folded = name.casefold()
        names.append(f"{name}_{number}" if folded in seen or others.get(folded, name) != name else name)
        seen.add(folded)
    return tuple(names)


def _name_sign(found: re.Match[str]) -> str:
    """Return the word for a sign of currencies, mathematics or percent, in which headings may differ."""
    sign, kind = unicodedata.name(found[0], ""), unicodedata.category(found[0])
    is_word = sign.endswith(" SIGN") and kind in ("Sc", "Sm", "Po")
    return f" {sign.removesuffix(' SIGN').lower()} " if is_word else found[0]


def read_table(table: Element) -> list[TableRow]:
    """Return the rows of data of a <table>, those of its foot last.

    A cell that covers several rows or columns has its text in each. Headings of several rows are joined, as in
    `Price / net`; without one, a column is called `column_3`, and one with the heading of another ends in its number.
    A row of one cell is the `section` of those below it. Raises SelectorFailed for a table that is too large.
    """
    lines = [line for line in _place_cells(table) if line.own]
    columns = sorted({cell.column for line in lines for cell in line.own})
    top, later = _count_headings(lines, columns), _find_later_headings(lines, columns)
    names, section = _name_columns(lines[:top], columns), None
    found: list[tuple[Element, dict[str, str | None], str | None]] = []
    headings: list[_Line] = []  # since the last row of data
    for number, line in enumerate(lines[top:], start=top):
        if line.covers(columns):
            section = line.own[0].text or section
        elif number in later:
            headings.append(line)
        else:
            names, headings = _name_columns(headings, columns) if headings else names, []
            texts = [line.slots[column].text if column in line.slots else None for column in columns]
            if not _repeats(texts, names):
                cells = dict(zip(names, texts, strict=True))
                found.append((line.element, cells, section if line.part != "tfoot" else None))
    has_sections = any(section for _, _, section in found)
    return [TableRow(row, cells | ({_SECTION: section} if has_sections else {})) for row, cells, section in found]


def _repeats(texts: Iterable[str | None], names: Sequence[str]) -> bool:
    """Return whether a row has the headings again, or a part of them."""
    return all(text == name or text in name.split(_JOINT) for text, name in zip(texts, names, strict=True))


def _place_cells(table: Element) -> Iterator[_Line]:
    """Yield the rows of a table with their cells, as the standard forms a table."""
    slots = 0
    for part, rows in _iter_parts(table):
        above: list[tuple[_Cell, range, int]] = []  # cells that reach down, with their columns and last row
        for number, row in enumerate(rows):
            line = _Line(row, part)
            above = [each for each in above if each[2] >= number]
            line.slots = {column: cell for cell, covered, _ in above for column in covered}
            column = 0
            for element in row.select("> td, > th"):
                while column in line.slots:
                    column += 1
                width = min(_read_span(element, "colspan") or 1, _MAX_WIDTH)
                height = _read_span(element, "rowspan")
                is_heading, scope = element.tag == "th", (element.attr("scope") or "").strip().lower()
                cell = _Cell(_read_heading(element) if is_heading else element.text(), is_heading, scope, column)
                line.own.append(cell)
                covered = range(column, column + width)
                line.slots = dict.fromkeys(covered, cell) | line.slots
                if height != 1:
                    last = min(number + min(height, _MAX_HEIGHT), len(rows)) - 1 if height else len(rows) - 1
                    above.append((cell, covered, last))
                column += width
            slots += len(line.slots)
            if slots > _MAX_SLOTS:
                raise SelectorFailed(f"a table of the page has more than {_MAX_SLOTS:,} cells")
            yield line


def _read_heading(element: Element) -> str:
    """Return the text of a heading without the options of a filter in it."""
    text = element.text()
    for each in element.select("select"):
        text = " ".join(text.replace(each.text(), " ").split())
    return text


def _iter_parts(table: Element) -> Iterator[tuple[str, list[Element]]]:
    """Yield the rows of the table's parts, those of its feet last."""
    feet: list[Element] = []
    loose: list[Element] = []  # rows of XML that are in no part
    for part in table.select("> thead, > tbody, > tfoot, > tr"):
        if part.tag == "tr":
            loose.append(part)
        elif part.tag == "tfoot":
            feet.append(part)
        else:
            yield part.tag, part.select("> tr")
    if loose:
        yield "tbody", loose
    for foot in feet:
        yield "tfoot", foot.select("> tr")


def _read_span(element: Element, name: str) -> int:
    found = _SPAN.match(element.attr(name) or "")
    return int(found[1]) if found else 1


def _count_headings(lines: Sequence[_Line], columns: Sequence[int]) -> int:
    """Return the number of rows at the top that are headings."""
    with_data = _find_data_columns(lines)
    in_head = any(line.part != "thead" for line in lines)
    top = 0
    for number, line in enumerate(lines):
        if line.covers(columns):
            continue
        if not (in_head and line.part == "thead") and not (with_data and _has_headings(line, with_data)):
            break
        top = number + 1
    if top or not lines:
        return top
    titles = next((number for number, line in enumerate(lines) if not line.covers(columns)), 0)
    first, others = lines[titles], [line for line in lines[titles + 1 :] if not line.covers(columns)]
    is_marked = any(cell.is_heading for line in lines for cell in line.own)
    if is_marked and with_data and (first.own[0].is_heading or not all(line.own[0].is_heading for line in others)):
        return 0  # only headings of rows
    if not others or any(_is_figure(cell.text) for cell in first.own[1:] or first.own):
        return 0
    return titles + _count_height(lines[titles:], columns)


def _count_height(lines: Sequence[_Line], columns: Sequence[int]) -> int:
    """Return the number of rows that headings without marks have: two where one heading is above others."""
    first, own = lines[0], set(lines[0].own)
    if len(lines) < 3 or len(own) == len(columns):
        return 1
    second = lines[1]
    beside = [cell for cell in own if second.slots.get(cell.column) is cell]
    below = [column for column in columns if second.slots.get(column) is not first.slots.get(column)]
    return 2 if beside and below and len(second.own) == len(below) else 1


def _find_data_columns(lines: Iterable[_Line]) -> set[int]:
    return {cell.column for line in lines if line.part != "thead" for cell in line.own if not cell.is_heading}


def _has_headings(line: _Line, with_data: set[int]) -> bool:
    """Return whether a row has only headings of columns; empty cells beside them are no data."""
    headings = [cell for cell in line.own if cell.is_heading]
    if not headings or any(cell.scope in ("row", "rowgroup") for cell in headings):
        return False
    if any(cell.scope in ("col", "colgroup") for cell in headings):
        return True
    data = [cell for cell in line.slots.values() if not cell.is_heading]
    return not any(cell.text for cell in data) and (not data or any(cell.column in with_data for cell in headings))


def _find_later_headings(lines: Sequence[_Line], columns: Sequence[int]) -> set[int]:
    """Return the rows that are headings of rows below them: no sums, and none at the end of the table."""
    with_data = _find_data_columns(lines)
    found: set[int] = set()
    pending: list[int] = []
    for number, line in enumerate(lines):
        if line.part != "tfoot" and with_data and _has_headings(line, with_data):
            pending += [] if any(_is_figure(cell.text) for cell in line.own) else [number]
        elif not line.covers(columns) and line.part != "tfoot":
            found.update(pending)
            pending.clear()
    return found


def _is_figure(text: str) -> bool:
    return _FIGURE.fullmatch(text) is not None and _YEAR.fullmatch(text) is None


def _name_columns(headings: Sequence[_Line], columns: Sequence[int]) -> list[str]:
    """Return the names of the columns by rows of headings; a heading of all columns is the table's title."""
    names: list[str] = []
    seen: set[str] = set()
    for number, column in enumerate(columns, start=1):
        cells = dict.fromkeys(
            line.slots[column] for line in headings if column in line.slots and not line.covers(columns)
        )
        name = _JOINT.join(dict.fromkeys(cell.text for cell in cells if cell.text)) or f"column_{number}"
        names.append(name if name not in seen else f"{name} {number}")
        seen.add(name)
    return names
