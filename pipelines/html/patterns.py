"""Regular expressions as users of jsoup write them, with a limit on the time that one takes on a page."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from math import prod

import regex

_SECONDS = 1.0
_MOST_STEPS = 200_000
_COUNT = re.compile(r"(?s)(.)\{0*+(\d{0,9})")
_AFTER_GROUP = frozenset(")}*+?")  # of what a count behind one of these repeats others may be part
_VERBOSE = re.compile(r"\(\?[a-zA-Z0-9-]*x[a-zA-Z0-9-]*[:)]")


class SlowPattern(Exception):
    """A pattern took too long on a page: it tries too many ways through the texts."""


class Pattern:
    """A Java regular expression, whose classes are ASCII; raises regex.error for what does not parse."""

    __slots__ = ("_compiled", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        quoted = re.sub(r"(?s)\\Q(.*?)(?:\\E|\Z)", lambda match: re.escape(match.group(1)), text)
        named = quoted.replace("(?<", "(?P<").replace("(?P<=", "(?<=").replace("(?P<!", "(?<!").replace("\\z", "\\Z")
        named = re.sub(r"\\k<(\w+)>", r"(?P=\1)", named)
        _check_size(named)
        self._compiled = regex.compile(named, regex.ASCII)

    def on(self, searched: Searched) -> Callable[[str], bool]:
        """Whether it is found anywhere in a text, for texts of one page; raises SlowPattern."""
        search, clock = self._compiled.search, time.process_time  # as regex itself counts

        def found(text: str) -> bool:
            spent, began = searched.get(self, 0.0), clock()
            if spent >= _SECONDS:
                raise self._slow()
            try:
                return search(text, timeout=_SECONDS - spent) is not None
            except TimeoutError:
                raise self._slow() from None
            finally:
                searched[self] = spent + clock() - began

        return found

    def _slow(self) -> SlowPattern:
        return SlowPattern(f"the pattern '{self.text}' takes more than {_SECONDS:g} s on the page")


Searched = dict[Pattern, float]  # the seconds that patterns have taken on a page


def _check_size(pattern: str) -> None:
    """Raises regex.error for counts that would take the engine long, for it writes out what they repeat."""
    counts = [(before, max(1, int(count or 0))) for before, count in _COUNT.findall(pattern)]
    if counts and _VERBOSE.search(pattern):  # there a count may have spaces and comments in it
        raise regex.error("(?x) and a {count} do not go together")
    groups = prod(count for before, count in counts if before in _AFTER_GROUP)
    single = max((count for before, count in counts if before not in _AFTER_GROUP), default=1)
    if len(pattern) * groups * single > _MOST_STEPS:
        raise regex.error("what its {counts} repeat is too long")
