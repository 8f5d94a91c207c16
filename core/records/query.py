"""Which records of a table a list shows: filters, sort and page, over fields inside the documents.

A filter compares as a person would read it: `price=19.5` finds the number 19.50 and the text "19.5", `active=true`
the boolean and the text, `note=null` null, the text "null" and records without the field.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from core.errors import BadInput, Detail
from core.infra.validation import storable

PAGE_SIZE = 50
MAX_PAGE_SIZE = 1000
MAX_PAGE = 1_000_000
MAX_FILTERS = 20
MAX_VALUES = 50
MAX_SORTS = 5
MAX_PARTS = 16
RESERVED = frozenset({"page", "pageSize", "sort"})
# both databases take these as one key, whatever else it holds
_FIELD_PART = re.compile(r"""[^\x00-\x1f."\\]{1,200}""")
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]{1,3})?")
LONGEST_NUMBER = 300

Field = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Sort:
    field: Field
    descending: bool


@dataclass(frozen=True, slots=True)
class Query:
    """One page of a list; a record is in it when every filtered field has one of its values."""

    page: int = 0
    page_size: int = PAGE_SIZE
    filters: Mapping[Field, Sequence[str]] = field(default_factory=dict[Field, Sequence[str]])
    sorts: Sequence[Sort] = ()

    @classmethod
    def of(cls, page: int, page_size: int, parameters: Sequence[tuple[str, str]], sort: str | None) -> Query:
        """Raises BadInput for a field that cannot be named, and for too many of them."""
        filters: dict[Field, list[str]] = {}
        for name, value in parameters:
            if name not in RESERVED:
                filters.setdefault(_field(name), []).append(_value(name, value))
        if len(filters) > MAX_FILTERS or any(len(values) > MAX_VALUES for values in filters.values()):
            raise BadInput(f"At most {MAX_FILTERS} fields are filtered, each by at most {MAX_VALUES} values.")
        return cls(page, page_size, filters, _sorts(sort or ""))


@dataclass(frozen=True, slots=True)
class Listing:
    """A page of records as JSON texts, and how many there are on all pages."""

    records: Sequence[str]
    total: int


def number(value: str) -> float | int | None:
    """The number that the value is written like, None for other text."""
    if len(value) > LONGEST_NUMBER or not _NUMBER.fullmatch(value):
        return None
    parsed: float | int = json.loads(value)
    return parsed if math.isfinite(parsed) else None


def _sorts(text: str) -> Sequence[Sort]:
    names = [name for name in text.split(",") if name]
    if len(names) > MAX_SORTS:
        raise BadInput(f"At most {MAX_SORTS} fields are sorted by.", [Detail("sort", "has too many fields")])
    return [Sort(_field(name.removeprefix("-")), name.startswith("-")) for name in names]


def _field(name: str) -> Field:
    parts = tuple(name.split("."))
    if len(parts) > MAX_PARTS or not all(_FIELD_PART.fullmatch(part) and storable(part) for part in parts):
        sentence = f"'{name[:100]}' is not the name of a field: names are separated by dots, without quotes."
        raise BadInput(sentence, [Detail(name[:100], sentence)])
    return parts


def _value(name: str, value: str) -> str:
    if not storable(value):
        raise BadInput(f"The value of '{name[:100]}' is not text that can be stored.", [Detail(name[:100], "NUL")])
    return value
