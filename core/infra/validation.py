"""Checks of names, text and free-form JSON before they are stored, and the format of times in JSON."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, cast

from core.errors import BadInput

NAME_LENGTH = 255
MAX_INTEGER = 2**31 - 1  # of an INTEGER column
RESERVED_NAMES = frozenset({"test", "id", "admin", "query", "upload"})


def is_storable(text: str) -> bool:
    """Whether the text is valid Unicode without NUL, which PostgreSQL does not support."""
    return "\0" not in text and (text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text))


def parse_integer(text: str) -> int | None:
    """Return the number of a text of digits; None for other texts and numbers that no INTEGER column has."""
    is_number = text.isascii() and text.isdecimal() and len(text) <= 10
    return int(text) if is_number and int(text) <= MAX_INTEGER else None


def check_storable(path: str, value: object) -> None:
    """Raise BadInput with the path of a text or number, at any depth, that cannot be stored."""
    if isinstance(value, str) and not is_storable(value):
        sentence = f"'{path}' contains a character that cannot be stored (NUL or half a surrogate pair)."
        raise BadInput(sentence, path=path)
    if isinstance(value, float) and not math.isfinite(value):
        raise BadInput(f"'{path}' is not a finite number.", path=path)
    for key, item in _list_items(value):
        check_storable(path, key)
        check_storable(f"{path}.{key}", item)


def replace_unstorable(value: Any) -> Any:
    """Replace characters and numbers that cannot be stored, so that a driver's report need not be refused."""
    if isinstance(value, str):
        return value if is_storable(value) else value.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        items = cast(dict[Any, Any], value).items()
        return {replace_unstorable(str(key)): replace_unstorable(item) for key, item in items}
    return [replace_unstorable(item) for item in cast(list[Any], value)] if isinstance(value, list) else value


def exceeds_depth(levels: int, value: object) -> bool:
    """Whether lists and objects are nested more deeply than this; needs no recursion."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(levels):
        level = [item for parent in level for item in _list_children(parent) if isinstance(item, dict | list)]
    return bool(level)


def check_name(name: str) -> None:
    """Raise BadInput for a name that is blank or too long."""
    check_storable("name", name)
    if not name.strip():
        raise BadInput("'name' is blank.", path="name")
    if len(name) > NAME_LENGTH:
        raise BadInput(f"'name' is longer than {NAME_LENGTH} characters.", path="name")


def check_not_reserved(name: str) -> None:
    """Raise BadInput for a name that is a segment of another operation's path."""
    if name in RESERVED_NAMES:
        sentence = f"The name '{name}' is reserved, because paths use it. Choose another one."
        raise BadInput(sentence, path="name", code="reserved-name")


def format_time(at: datetime) -> str:
    """Return the time in UTC as JSON has it: ISO 8601 that ends in `Z`."""
    return at.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"


def format_optional_time(at: datetime | None) -> str | None:
    return None if at is None else format_time(at)


def _list_items(value: object) -> list[tuple[str, object]]:
    if isinstance(value, Mapping):
        return [(str(key), item) for key, item in cast(Mapping[object, object], value).items()]
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [(str(index), item) for index, item in enumerate(cast(Sequence[object], value))]
    return []


def _list_children(parent: object) -> Iterable[object]:
    if isinstance(parent, dict):
        return cast(dict[str, object], parent).values()
    return cast(list[object], parent)
