"""Users' texts in Markdown, which Dagster's UI shows: literally, and without characters that hide or reorder others."""

from __future__ import annotations

import re

MAX_CODE_CHARACTERS = 20_000
# control characters, zero-width ones, and those that change the direction of the text around them
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]"
)
# characters that are markup in their place: the catalog shows a backslash, so no others get one
_SPECIAL = re.compile(r"[\\`*\[\]<>~|]|(?<!\w)_|_(?!\w)|&(?=#?\w+;)|^[-+#=]")


def clean_text(text: str) -> str:
    return _INVISIBLE.sub("", text)


def escape_markdown(text: str) -> str:
    """Return a text as Markdown that shows it as it is, on one line."""
    return _SPECIAL.sub(r"\\\g<0>", " ".join(clean_text(text).split()))


def format_code(text: str, language: str) -> str:
    """Return a block of code, cut off where it is very long; its fence is longer than any in the text."""
    text = clean_text(text)
    if len(text) > MAX_CODE_CHARACTERS:
        text = f"{text[:MAX_CODE_CHARACTERS]}\n…"
    longest = max((len(ticks) for ticks in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"
