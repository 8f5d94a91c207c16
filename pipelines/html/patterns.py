"""Regular expressions as users of jsoup write them, with a limit on the time that one search takes."""

from __future__ import annotations

import re

import regex

_SECONDS = 1.0


class SlowPattern(Exception):
    """A search took too long: the expression tries too many ways through the text."""


class Pattern:
    """A Java regular expression, whose classes are ASCII; raises regex.error for what does not parse."""

    __slots__ = ("_compiled", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        quoted = re.sub(r"(?s)\\Q(.*?)(?:\\E|\Z)", lambda match: re.escape(match.group(1)), text)
        named = quoted.replace("(?<", "(?P<").replace("(?P<=", "(?<=").replace("(?P<!", "(?<!").replace("\\z", "\\Z")
        named = re.sub(r"\\k<(\w+)>", r"(?P=\1)", named)
        self._compiled = regex.compile(named, regex.ASCII)

    def search(self, text: str) -> bool:
        """Whether it is found anywhere in `text`; raises SlowPattern."""
        try:
            return self._compiled.search(text, timeout=_SECONDS) is not None
        except TimeoutError:
            size = f"a text of {len(text):,} characters"
            raise SlowPattern(f"the pattern '{self.text}' takes more than {_SECONDS:g} s on {size}") from None
