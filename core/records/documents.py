"""What may be stored as a document: a JSON object within limits, as text that both databases take."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from core.errors import BadInput, Detail, TooLarge
from core.infra.validation import check_storable, deeper_than

MAX_BYTES = 2**20
MAX_DEPTH = 64
OWN_FIELDS = frozenset({"id", "createdAt", "updatedAt"})
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
_SENTENCE = "The record contains something that cannot be stored (NUL, half a surrogate pair, or no finite number)."


def as_text(document: Mapping[str, Any]) -> str:
    """The document as compact JSON. Raises BadInput for what cannot be stored, TooLarge beyond 1 MiB."""
    if deeper_than(MAX_DEPTH, document):
        sentence = f"The record is nested deeper than {MAX_DEPTH} levels."
        raise BadInput(sentence, [Detail("body", sentence)])
    try:
        text = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        size = len(text.encode())
    except ValueError as error:  # no finite number, or half a surrogate pair
        raise _unstorable(document) from error
    if _NUL.search(text):
        raise _unstorable(document)
    if size > MAX_BYTES:
        raise TooLarge(f"The record has {size} bytes as JSON; at most {MAX_BYTES} are stored.")
    return text


def merged(document: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The document with the fields of `changes` that have a value; what the server owns is never among them."""
    return {**document, **{name: value for name, value in own(changes).items() if value is not None}}


def own(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values without those that the server owns."""
    return {name: value for name, value in values.items() if name not in OWN_FIELDS}


def _unstorable(document: Mapping[str, Any]) -> BadInput:
    """The error that names the place, which is looked for only now."""
    for name, value in document.items():
        try:
            check_storable(name, value)
            check_storable("body", name)
        except BadInput as error:
            return error
    return BadInput(_SENTENCE, [Detail("body", _SENTENCE)])
