"""Regular expressions with a limit on the time that one takes on a page, in selectors as users of jsoup write them."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from functools import lru_cache
from typing import Annotated

import regex
from pydantic import AfterValidator

from pipelines.errors import ArgumentError
from pipelines.language.parameters import has_reference

_SECONDS = 1.0
_MOST_STEPS = 200_000
# flags that change the syntax in ways that _check_size does not support
_MODE = re.compile(r"\(\?[a-zA-Z0-9-]*[xV][a-zA-Z0-9-]*[:)]")
_VERBOSE = re.compile(r"\(\?[a-z]*x[a-z]*\)")
_POSIX = r"\[:\^?[A-Za-z0-9 &_.-]*+(?:[:=] *+[A-Za-z0-9&_./-][A-Za-z0-9 &_./-]*+)?+:\]"
_IN_CLASS = rf"(?:{_POSIX}|\\.?|[^\\\]])"
_CLASS = rf"\[\^?+(?:{_IN_CLASS}|\])?+{_IN_CLASS}*+(?:\]|\Z)"
_COMMENT = r"\(\?\#(?:\\.?|[^\\)])*+(?:\)|\Z)"
_SPACE = re.compile(rf"(?s)({_COMMENT}|{_CLASS}|\\.)|\s|\#[^\n]*+")
_TOKEN = re.compile(
    rf"(?s)(?P<nothing>{_COMMENT}|\(\?[a-zA-Z0-9-]*+\))"
    r"|\{(?=[0-9,])0*+(?P<count>[0-9]{0,9}+)[0-9]*+(?:,[0-9]*+)?\}"
    rf"|\\[pP]\{{\^?[A-Za-z0-9 &_.:=/-]*+\}}|{_CLASS}|\\.|."
)


class SelectorFailed(Exception):
    """A selector or pattern cannot be evaluated on a page; the row of the page fails."""


class SlowPattern(SelectorFailed):
    """A pattern took too long on a page, by backtracking."""


class Pattern:
    """A Java regular expression with classes of ASCII, or of Unicode; raises regex.error."""

    __slots__ = ("_compiled", "text")

    def __init__(self, text: str, flags: int = regex.ASCII) -> None:
        self.text = text
        quoted = re.sub(r"(?s)\\Q(.*?)(?:\\E|\Z)", lambda match: re.escape(match.group(1)), text)
        named = quoted.replace("(?<", "(?P<").replace("(?P<=", "(?<=").replace("(?P<!", "(?<!").replace("\\z", "\\Z")
        named = re.sub(r"\\k<(\w+)>", r"(?P=\1)", named)
        _check_size(named)
        self._compiled = regex.compile(named, flags)

    def limit_to_page(self, searched: Searched) -> Callable[[str], regex.Match[str] | None]:
        """Return a search function for the texts of one page, which raises SlowPattern."""
        search, clock = self._compiled.search, time.process_time  # as regex itself counts

        def search_text(text: str) -> regex.Match[str] | None:
            spent, began = searched.get(self, 0.0), clock()
            if spent >= _SECONDS:
                raise self._make_error()
            try:
                return search(text, timeout=_SECONDS - spent)
            except TimeoutError:
                raise self._make_error() from None
            finally:
                searched[self] = spent + clock() - began

        return search_text

    def find_group(self, text: str, searched: Searched) -> str | None:
        """Return the first group of the first match, or the whole match of a pattern without groups."""
        found = self.limit_to_page(searched)(text)
        return found[1 if self._compiled.groups else 0] if found else None

    def _make_error(self) -> SlowPattern:
        return SlowPattern(f"the pattern '{self.text}' takes more than {_SECONDS:g} s on the page")


Searched = dict[Pattern, float]  # CPU seconds of each pattern on a page


@lru_cache(maxsize=1024)
def compile_pattern(text: str) -> Pattern:
    """Compile the pattern of an argument, with classes of Unicode; raises regex.error and RecursionError."""
    return Pattern(text, regex.UNICODE)


def _check_pattern(text: str) -> str:
    try:
        if not has_reference(text):
            compile_pattern(text)
    except regex.error as error:
        raise ArgumentError(f"the regular expression '{text}' does not parse: {error}", "invalid-pattern") from None
    except RecursionError:
        raise ArgumentError("the regular expression is nested too deep", "invalid-pattern") from None
    return text


# The type of a pattern argument of a stage: checked when the pipeline is read.
PatternText = Annotated[str, AfterValidator(_check_pattern)]


def _check_size(pattern: str) -> None:
    """Raise regex.error for large counts: the engine expands the repeated part."""
    if "{" not in pattern:
        return
    if begin := _VERBOSE.match(pattern):
        pattern = _SPACE.sub(r"\1", pattern[begin.end() :])
    if mode := _MODE.search(pattern):
        raise regex.error(f"{mode.group()} and a {{count}} do not go together")
    around: list[int] = []  # for each open group, the size of the pattern before it
    size = last = 0  # of the group so far, and of the item that a count would repeat
    for token in _TOKEN.finditer(pattern):
        text, count = token.group(), token["count"]
        if count is not None:
            size += last * (max(1, int(count or 0)) - 1)
            last *= max(1, int(count or 0))
        elif text == "(":
            around.append(size)
            size = last = 0
        elif text == ")" and around:
            last = size + 2
            size = around.pop() + last
        elif token["nothing"] is None:
            size += len(text)
            last = size if text == "}" else len(text)  # a count after an {edit limit} repeats the item before that
        if size > _MOST_STEPS:
            raise regex.error("what its {counts} repeat is too long")
