"""Text that others wrote, as a terminal may have it."""

from __future__ import annotations

import unicodedata

from rich.text import Text

_KEPT = "\n\t"
_REPLACEMENT = "\ufffd"


def shown(text: str, style: str = "") -> Text:
    """The text as it is: brackets are no markup, and what would steer the terminal or turn the line is replaced."""
    return Text("".join(_REPLACEMENT if _steers(character) else character for character in text), style)


def _steers(character: str) -> bool:
    return character not in _KEPT and unicodedata.category(character).startswith("C")
