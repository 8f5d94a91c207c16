"""Types that the columns of an upload should have: those of the dataset's current version."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa

from core.data.files.types import normalize_type
from pipelines.passes.json_rows import Values
from pipelines.passes.text_types import Texts
from pipelines.passes.types import UnknownType, parse_type


class WantedTypes:
    """Types by the names of columns in any case, as long as all values have them.

    With `allow_changes`, a column keeps its type only if it is empty, or of numbers before and after.
    """

    def __init__(self, columns: Iterable[tuple[str, str]] = (), allow_changes: bool = False) -> None:
        self._types: dict[str, Any] = {}
        self._allow_changes = allow_changes
        for name, type in columns:
            try:
                self._types[name.casefold()] = normalize_type(parse_type(type))
            except UnknownType:
                continue

    def check(self, name: str, convert: Callable[[Any], Any]) -> None:
        """Forget the type of a column if values cannot be converted to it."""
        type = self._types.get(name.casefold())
        if type is None:
            return
        try:
            convert(type)
        except (ValueError, OverflowError, pa.ArrowException):
            del self._types[name.casefold()]

    def choose(self, name: str, shown: Texts | Values) -> Any:
        """Return the type of a column whose values have shown what they are."""
        wanted, found = self._types.get(name.casefold()), shown.decide()
        if wanted is None or (
            self._allow_changes and not shown.is_empty and not (is_number(wanted) and is_number(found))
        ):
            return found
        return wanted


def is_number(type: Any) -> bool:
    return pa.types.is_integer(type) or pa.types.is_floating(type) or pa.types.is_decimal(type)
