"""Types that the columns of an upload should have: those of the dataset's current version."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pyarrow as pa

from core.data.files.stored_columns import is_number
from core.data.files.types import normalize_type
from pipelines.columns.types import UnknownType, parse_type
from pipelines.engine.json_rows import Values
from pipelines.engine.text_types import Texts


class WantedTypes:
    """Types by the names of columns in any case, as long as all values have them.

    With `allow_changes`, a column keeps its type only if it is empty, or of numbers before and after.
    """

    def __init__(self, columns: Iterable[tuple[str, str]] = (), allow_changes: bool = False) -> None:
        self._types: dict[str, Any] = {}
        self.untyped = set[str]()  # columns that never had a value
        self._allow_changes = allow_changes
        for name, type in columns:
            try:
                self._types[name.casefold()] = normalize_type(parse_type(type))
            except UnknownType:
                continue

    def has(self, name: str, found: Any = None) -> bool:
        """Return whether a column should have another type than the one found."""
        return self._types.get(name.casefold(), found) != found

    def check(self, name: str, convert: Callable[[Any], Any]) -> None:
        """Forget the type of a column if values cannot be converted to it."""
        type = self._types.get(name.casefold())
        if type is None:
            return
        try:
            convert(type)
        except (ValueError, OverflowError, pa.ArrowException):
            del self._types[name.casefold()]

    def build_schema(self, columns: Mapping[str, Texts | Values]) -> Any:
        """Return the columns that their values have shown."""
        fields = ((name, self.choose(name, shown.decide(), shown.is_empty)) for name, shown in columns.items())
        return pa.schema(list(fields))

    def choose(self, name: str, found: Any, is_empty: bool) -> Any:
        """Return the type of a column: the wanted one, or that which its values have shown."""
        wanted = self._types.get(name.casefold())
        if wanted is None:
            if is_empty:
                self.untyped.add(name)
            return found
        stays = not self._allow_changes or is_empty or (is_number(wanted) and is_number(found))
        return wanted if stays else found
