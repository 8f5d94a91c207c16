"""Documents: JSON objects within limits, as text that both databases can store."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from core.errors import BadInput, TooLarge
from core.infra.validation import check_storable, exceeds_depth

Document = Mapping[str, Any]  # the fields are the user's own

MAX_BYTES = 2**20
MAX_DEPTH = 64
SERVER_FIELDS = frozenset({"id", "createdAt", "updatedAt"})
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
_UNSTORABLE = "The record contains a value that cannot be stored: NUL, half a surrogate pair, NaN or an infinity."


def serialize(document: Document) -> str:
    """Return the document as compact JSON. Raises BadInput for values that cannot be stored, TooLarge beyond 1 MiB."""
    if exceeds_depth(MAX_DEPTH, document):
        sentence = f"The record is nested deeper than {MAX_DEPTH} levels."
        raise BadInput(sentence, path="body")
    try:
        text = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        size = len(text.encode())
    except ValueError as error:  # NaN, an infinity, or half a surrogate pair
        raise _find_unstorable(document) from error
    if _NUL.search(text):
        raise _find_unstorable(document)
    if size > MAX_BYTES:
        raise TooLarge(f"The record has {size} bytes as JSON; at most {MAX_BYTES} are stored.")
    return text


def merge(document: Document, changes: Document) -> dict[str, Any]:
    """Return the document with those changes that have a value; fields that the server sets are ignored."""
    return {**document, **{name: value for name, value in remove_server_fields(changes).items() if value is not None}}


def remove_server_fields(values: Document) -> dict[str, Any]:
    """Return the values without the fields that the server sets."""
    return {name: value for name, value in values.items() if name not in SERVER_FIELDS}


def _find_unstorable(document: Document) -> BadInput:
    """Return the error that names the field of the value that cannot be stored."""
    for name, value in document.items():
        try:
            check_storable(name, value)
            check_storable("body", name)
        except BadInput as error:
            return error
    return BadInput(_UNSTORABLE, path="body")
