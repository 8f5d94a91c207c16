"""What text and free-form JSON may be stored, on both databases and for every later reader."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, cast

from core.errors import BadInput, Detail

NAME_LENGTH = 255
RESERVED_NAMES = frozenset({"test", "id", "admin", "query", "upload"})


def storable(text: str) -> bool:
    """Whether the text is valid Unicode without NUL, which PostgreSQL does not take."""
    return "\0" not in text and (text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text))


def check_storable(path: str, value: object) -> None:
    """Raises BadInput that names the place of text or a number that cannot be stored."""
    if isinstance(value, str) and not storable(value):
        raise _bad(path, f"'{path}' contains a character that cannot be stored (NUL or half a surrogate pair).")
    if isinstance(value, float) and not math.isfinite(value):
        raise _bad(path, f"'{path}' is not a finite number.")
    for key, item in _items(value):
        check_storable(path, key)
        check_storable(f"{path}.{key}", item)


def deeper_than(levels: int, value: object) -> bool:
    """Whether lists and objects are nested in more levels than these, found without recursion."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(levels):
        level = [item for parent in level for item in _children(parent) if isinstance(item, dict | list)]
    return bool(level)


def cleaned(value: Any) -> Any:
    """The value with what cannot be stored replaced: a driver's report is not refused over a character."""
    if isinstance(value, str):
        return value if storable(value) else value.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {cleaned(str(key)): cleaned(item) for key, item in cast(dict[Any, Any], value).items()}
    return [cleaned(item) for item in cast(list[Any], value)] if isinstance(value, list) else value


def format_time(at: datetime) -> str:
    """Return the time in UTC as JSON has it: ISO 8601 that ends in `Z`."""
    return at.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"


def iso(at: datetime | None) -> str | None:
    """The time as JSON has it."""
    return None if at is None else format_time(at)


def check_name(name: str) -> None:
    """Raises BadInput for a name that is blank or too long."""
    check_storable("name", name)
    if not name.strip():
        raise _bad("name", "'name' is blank.")
    if len(name) > NAME_LENGTH:
        raise _bad("name", f"'name' is longer than {NAME_LENGTH} characters.")


def check_not_reserved(name: str) -> None:
    """Raises BadInput for a name that would be read as another operation's path."""
    if name in RESERVED_NAMES:
        raise _bad("name", f"The name '{name}' is reserved, because paths use it. Choose another one.")


def _items(value: object) -> list[tuple[str, object]]:
    if isinstance(value, Mapping):
        return [(str(key), item) for key, item in cast(Mapping[object, object], value).items()]
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [(str(index), item) for index, item in enumerate(cast(Sequence[object], value))]
    return []


def _children(parent: object) -> Iterable[object]:
    if isinstance(parent, dict):
        return cast(dict[str, object], parent).values()
    return cast(list[object], parent)


def _bad(path: str, sentence: str) -> BadInput:
    return BadInput(sentence, [Detail(path, sentence)])
