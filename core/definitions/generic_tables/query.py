"""Queries of a table: filters, order and page, over fields inside the documents.

A filter's text matches values of several types: `price=19.5` the number 19.50 and the text "19.5", `active=true` the
boolean and the text, `note=null` null, the text "null" and rows without the field.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from core.errors import BadInput
from core.infra.validation import is_storable

PAGE_SIZE = 50
MAX_PAGE_SIZE = 1000
MAX_PAGE = 1_000_000
MAX_FILTERS = 20
MAX_VALUES = 50
MAX_SORTS = 5
MAX_PARTS = 16
RESERVED = frozenset({"page", "pageSize", "sort"})
# both databases accept these as one key
_FIELD_PART = re.compile(r"""[^\x00-\x1f."\\]{1,200}""")
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]{1,3})?")
LONGEST_NUMBER = 300

Field = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Sort:
    """One field to sort by."""

    field: Field
    descending: bool


@dataclass(frozen=True, slots=True)
class RowQuery:
    """One page of a list of the rows whose filtered fields all have one of the given values."""

    page: int = 0
    page_size: int = PAGE_SIZE
    filters: Mapping[Field, Sequence[str]] = field(default_factory=dict[Field, Sequence[str]])
    sorts: Sequence[Sort] = ()

    @classmethod
    def from_parameters(
        cls, page: int, page_size: int, parameters: Sequence[tuple[str, str]], sort: str | None
    ) -> RowQuery:
        """Parse a request's query parameters. Raises BadInput for invalid fields, and for too many of them."""
        filters: dict[Field, list[str]] = {}
        for name, value in parameters:
            if name not in RESERVED:
                if not is_storable(value):
                    raise BadInput(
                        f"The value of '{name[:100]}' contains characters that cannot be stored.", path=name[:100]
                    )
                filters.setdefault(_parse_field(name), []).append(value)
        if len(filters) > MAX_FILTERS or any(len(values) > MAX_VALUES for values in filters.values()):
            raise BadInput(f"At most {MAX_FILTERS} fields are filtered, each by at most {MAX_VALUES} values.")
        return cls(page, page_size, filters, _parse_sorts(sort or ""))


@dataclass(frozen=True, slots=True)
class RowPage:
    """A page of rows as JSON texts, and the number of rows on all pages."""

    rows: Sequence[str]
    total: int


def parse_number(value: str) -> float | int | None:
    """Return the JSON number that the text is; None for other texts."""
    if len(value) > LONGEST_NUMBER or not _NUMBER.fullmatch(value):
        return None
    parsed: float | int = json.loads(value)
    return parsed if math.isfinite(parsed) else None


def _parse_sorts(text: str) -> Sequence[Sort]:
    names = [name for name in text.split(",") if name]
    if len(names) > MAX_SORTS:
        raise BadInput(f"At most {MAX_SORTS} fields are sorted by.", path="sort")
    return [Sort(_parse_field(name.removeprefix("-")), name.startswith("-")) for name in names]


def _parse_field(name: str) -> Field:
    parts = tuple(name.split("."))
    if len(parts) > MAX_PARTS or not all(_FIELD_PART.fullmatch(part) and is_storable(part) for part in parts):
        sentence = f"'{name[:100]}' is not the name of a field: names are separated by dots, without quotes."
        raise BadInput(sentence, path=name[:100])
    return parts
