"""The parser of selectors in jsoup's dialect: CSS with leading combinators, :contains, :matches and the like.

Conditions that lexbor matches as jsoup does become CSS; the others become filters of its matches.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import regex

from pipelines.extract import filters
from pipelines.extract.matching import Complex, Compound, Filter, Query, Step, is_scope
from pipelines.extract.patterns import Pattern

_MAX_DEPTH = 32
_ESCAPE = r"\\[0-9a-fA-F]{1,6}\s?|\\."
_IDENTIFIER = re.compile(rf"(?:[\w-]|[^\x00-\x7f]|{_ESCAPE})++")
_TYPE = re.compile(
    rf"\*\|(?:[\w-]|{_ESCAPE})++|(?:[\w-]|[^\x00-\x7f]|{_ESCAPE})++\|\*|(?:[\w|-]|[^\x00-\x7f]|{_ESCAPE})++|\*"
)
_OPERATOR = re.compile(r"[!^$*~|]?=")
_FLAGGED = re.compile(r"""(?si)(?P<value>\s*(?:(["']).*\2|[^\s"']+(?=\s)))\s*(?P<flag>[is])\s*""")
_OF = re.compile(r"(?<=\s)of(?=\s)", re.IGNORECASE)
_NTH = re.compile(r"([+-]?\d*)n\s*(?:([+-])\s*)?(\d+)?|([+-]?\d+)")
_COMBINATOR = re.compile(r"\s*([>+~])\s*|\s+")
_SPACES = re.compile(r"\s*")

# Structural pseudo-classes of lexbor; in jsoup they never match the root element.
_STRUCTURAL = frozenset(("first-child", "last-child", "first-of-type", "last-of-type", "only-child", "only-of-type"))
_NTH_NAMES = frozenset(("nth-child", "nth-last-child", "nth-of-type", "nth-last-of-type"))
_OF_NAMES = frozenset(("nth-child", "nth-last-child"))
# State pseudo-classes, by the HTML; without a browser no link is visited.
_STATES = {
    "root": ":root",
    "checked": ":checked",
    "required": ":required",
    "optional": ":optional",
    "any-link": ":any-link",
    "link": ":any-link",
}
_TEXTS: dict[str, Callable[[str], Filter]] = {
    "contains": filters.match_text,
    "containsown": filters.match_own_text,
    "containswholetext": filters.match_whole_text,
    "containswholeowntext": filters.match_whole_own_text,
    "containsdata": filters.match_data,
}
_PATTERNS: dict[str, Callable[[Pattern], Filter]] = {
    "matches": filters.find_in_text,
    "matchesown": filters.find_in_own_text,
    "matcheswholetext": filters.find_in_whole_text,
    "matcheswholeowntext": filters.find_in_whole_own_text,
}
_BARE: dict[str, Filter] = {"empty": filters.is_empty, "blank": filters.is_blank, "scope": is_scope}


class SelectorError(ValueError):
    """The selector does not parse."""


@dataclass(slots=True)
class _Parts:
    """A compound selector during parsing."""

    css: list[str]
    filters: list[Filter]
    may_be_root: bool = True


def parse_selector(text: str, depth: int = 0, is_in_has: bool = False) -> Query:
    """Parse a selector group; raise SelectorError."""
    if depth > _MAX_DEPTH:
        raise SelectorError(f"nested more than {_MAX_DEPTH} deep")
    return _Parser(text, depth, is_in_has).parse_group()


class _Parser:
    def __init__(self, text: str, depth: int, is_in_has: bool) -> None:
        self._text = text.strip()
        self._at = 0
        self._depth = depth
        self._is_in_has = is_in_has

    def parse_group(self) -> Query:
        if not self._text:
            raise SelectorError("the selector is empty")
        selectors = [self._parse_complex()]
        while self._take(","):
            selectors.append(self._parse_complex())
        if self._at < len(self._text):
            raise self._make_error()
        return Query(tuple(selectors), self._text)

    def _parse_complex(self) -> Complex:
        self._skip_spaces()
        steps = [Step(self._parse_combinator(), self._parse_compound())]
        while combinator := self._parse_combinator():
            steps.append(Step(combinator, self._parse_compound()))
        return Complex(tuple(steps))

    def _parse_combinator(self) -> str:
        """Return '>', '+', '~', ' ' for a descendant, or '' at the end of the selector."""
        match = _COMBINATOR.match(self._text, self._at)
        if not match or (not match.group(1) and self._text[match.end() : match.end() + 1] in ("", ",")):
            self._skip_spaces()
            return ""
        self._at = match.end()
        return match.group(1) or " "

    def _parse_compound(self) -> Compound:
        start = self._at
        parts = _Parts([], [])
        if match := _TYPE.match(self._text, self._at):
            if match.group().startswith("|") or "||" in match.group():
                self._at += match.group().index("|")
                raise self._make_error()
            self._at = match.end()
            self._parse_type(match.group(), parts)
        while self._parse_simple(parts):
            pass
        if self._at == start:
            raise self._make_error()
        return Compound("".join(parts.css) or "*", tuple(parts.filters))

    def _parse_type(self, name: str, parts: _Parts) -> None:
        name = _decode_escapes(name).lower()
        if name.startswith("*|") and name != "*|*":
            parts.filters.append(filters.match_tag_in_any_namespace(name[2:]))
        elif name.endswith("|*"):
            parts.filters.append(filters.match_tag_prefix(name[:-2] + ":"))
        elif name != "*":
            parts.may_be_root = name == "html"
            parts.css.append(_escape_identifier(name.replace("|", ":")))

    def _parse_simple(self, parts: _Parts) -> bool:
        """Parse one #id, .class, [attribute] or :pseudo-class; return False without one."""
        if self._take("#"):
            parts.css.append(f"[id={_quote_string(self._read_name('an id', '#'))}]")
        elif self._take("."):
            parts.css.append(f"[class~={_quote_string(self._read_name('a class', '.'))} i]")
        elif self._text.startswith("[", self._at):
            self._parse_attribute(self._read_balanced("[", "]"), parts)
        elif self._take(":"):
            self._parse_pseudo(self._read_name("a pseudo-class", ":").lower(), parts)
        else:
            return False
        return True

    def _parse_attribute(self, inside: str, parts: _Parts) -> None:
        match = _OPERATOR.search(inside)
        key = inside[: match.start() if match else None].strip().lower()
        if not key:
            raise SelectorError(f"[{inside}] has no attribute name")
        if match is None:
            self._add_attribute(key, parts)
            return
        operator, value = match.group(), inside[match.end() :]
        if not value.strip():
            raise SelectorError(f"[{inside}] has no value to compare with")
        flagged = _FLAGGED.fullmatch(value)
        value, flag = flagged.group("value", "flag") if flagged else (value, "")
        if operator == "~=":
            pattern = _compile_pattern(("(?i)" if flag in ("i", "I") else "") + _unquote(value))
            parts.filters.append(filters.match_attribute_pattern(key, pattern))
            if ":" not in key:
                parts.css.append(f"[{_escape_identifier(key)}]")
        else:
            _add_comparison(key, operator, value, flag in ("s", "S"), parts)

    def _add_attribute(self, key: str, parts: _Parts) -> None:
        if key.startswith("^") or key == "*":
            parts.filters.append(filters.match_attribute_prefix(key[1:]))
        elif ":" in key:
            parts.filters.append(filters.match_attribute(key, lambda value: not key.startswith("abs:") or value))
        else:
            parts.css.append(f"[{_escape_identifier(key)}]")

    def _parse_pseudo(self, name: str, parts: _Parts) -> None:
        if name in _STRUCTURAL:
            parts.css.append(f":{name}{_exclude_root(parts)}")
        elif name == "scope" and self._is_in_has:
            raise SelectorError("inside ':has()', ':scope' is another element in CSS than in jsoup: write ':has(> a)'")
        elif name in _BARE:
            parts.filters.append(_BARE[name])
        elif name in _STATES:
            parts.css.append(_STATES[name])
        elif self._text.startswith("(", self._at):
            self._parse_function(name, self._read_balanced("(", ")"), parts)
        else:
            raise SelectorError(f"':{name}' is not a pseudo-class that is known, or lacks its parentheses")

    def _parse_function(self, name: str, inside: str, parts: _Parts) -> None:
        if not inside.strip():
            raise SelectorError(f":{name}() has nothing in its parentheses")
        if name in _NTH_NAMES:
            parts.css.append(f":{name}({self._parse_position(name, inside)}){_exclude_root(parts)}")
        elif name in ("eq", "lt", "gt"):
            parts.css.append(_parse_index(name, inside.strip(), parts.may_be_root))
        elif name in _TEXTS:
            parts.filters.append(_TEXTS[name](_decode_escapes(inside)))
        elif name in _PATTERNS:
            parts.filters.append(_PATTERNS[name](_compile_pattern(inside)))
        elif name in ("is", "where", "not", "has"):
            is_in_has = self._is_in_has or name == "has"
            self._add_nested(name, parse_selector(inside, self._depth + 1, is_in_has), parts)
        else:
            raise SelectorError(f"':{name}()' is not a pseudo-class that is known")

    def _add_nested(self, name: str, query: Query, parts: _Parts) -> None:
        if name == "has":
            parts.filters.append(filters.require_inside(query))
        elif name in ("is", "where"):
            parts.filters.append(filters.keep_matches(query))
        elif css := query.compound_css:
            parts.css.append(f":not({css})")
        else:
            parts.filters.append(filters.reject_matches(query))

    def _parse_position(self, name: str, inside: str) -> str:
        """Parse the argument of :nth-child() and the like: `3`, `2n+1` or `2 of .item`."""
        position, *such = _OF.split(inside, maxsplit=1) if name in _OF_NAMES else [inside]
        if not such:
            return _parse_nth(position)
        query = parse_selector(such[0], self._depth + 1)
        # lexbor counts wrong by a list
        if not query.compound_css or len(query.selectors) > 1:
            raise SelectorError(f"':{name}(… of {such[0].strip()})' counts by one name, id, class or the like")
        return f"{_parse_nth(position)} of {query.compound_css}"

    def _read_name(self, what: str, after: str) -> str:
        match = _IDENTIFIER.match(self._text, self._at)
        if not match:
            raise SelectorError(f"there is no name of {what} after '{after}'")
        self._at = match.end()
        return _decode_escapes(match.group())

    def _read_balanced(self, opening: str, closing: str) -> str:
        """Return the text between a pair of brackets, which may contain pairs and quoted text."""
        depth, quote, start = 0, "", self._at + 1
        while self._at < len(self._text):
            char = self._text[self._at]
            self._at += 2 if char == "\\" else 1
            if char == "\\":
                continue
            if quote or char in "'\"":
                quote = "" if char == quote else quote or char
            elif char == opening:
                depth += 1
            elif char == closing and (depth := depth - 1) == 0:
                return self._text[start : self._at - 1]
        raise SelectorError(f"'{opening}' at character {start} is never closed by '{closing}'")

    def _take(self, char: str) -> bool:
        taken = self._text.startswith(char, self._at)
        self._at += len(char) if taken else 0
        return taken

    def _skip_spaces(self) -> None:
        match = _SPACES.match(self._text, self._at)
        self._at = match.end() if match else self._at

    def _make_error(self) -> SelectorError:
        if self._at >= len(self._text):
            return SelectorError("it ends where an element is expected")
        return SelectorError(f"'{self._text[self._at]}' at character {self._at + 1} is not expected there")


def _decode_escapes(text: str) -> str:
    return re.sub(r"\\([0-9a-fA-F]{1,6})\s?|\\(.)", _decode_escape, text) if "\\" in text else text


def _decode_escape(match: re.Match[str]) -> str:
    return match.group(2) or chr(min(int(match.group(1), 16), 0x10FFFF))


def _escape_identifier(name: str) -> str:
    """Escape `name` as a CSS identifier."""
    return re.sub(r"[^\w-]|^[\d-]", lambda match: f"\\{ord(match.group()):x} ", name, flags=re.ASCII)


def _quote_string(value: str) -> str:
    """Quote `value` as a CSS string."""
    return '"' + re.sub(r'["\\\x00-\x1f]', lambda match: f"\\{ord(match.group()):x} ", value) + '"'


def _add_comparison(key: str, operator: str, value: str, is_exact: bool, parts: _Parts) -> None:
    """Compare an attribute with a value, in any case unless `is_exact`."""
    value = _read_value(value)
    if value and (value.isascii() or is_exact) and ":" not in key:
        comparison = f"{operator.lstrip('!')}{_quote_string(value)} {'s' if is_exact else 'i'}"
        css = f"[{_escape_identifier(key)}{comparison}]"
        parts.css.append(f":not({css})" if operator == "!=" else css)
        return
    parts.filters.append(filters.match_attribute_value(key, operator, value, is_exact))
    if operator != "!=" and ":" not in key:
        parts.css.append(f"[{_escape_identifier(key)}]")


def _unquote(text: str) -> str:
    """Remove a pair of quotes around the whole text."""
    text = text.strip()
    quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" and text[0] not in text[1:-1]
    return text[1:-1] if quoted else text


def _read_value(text: str) -> str:
    """Return the value of a comparison; quotes protect outer spaces."""
    text = text.strip()
    quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "'\""
    return text[1:-1] if quoted else text


def _parse_nth(text: str) -> str:
    """Parse a position: odd, even, 3, 2n+1."""
    text = text.strip().lower()
    match = _NTH.fullmatch({"odd": "2n+1", "even": "2n"}.get(text, text))
    if not match or (match.group(2) and not match.group(3)):
        raise SelectorError(f"'{text}' is not a position such as 3, odd or 2n+1")
    return match.group().replace(" ", "")


def _exclude_root(parts: _Parts) -> str:
    return ":not(:root)" if parts.may_be_root else ""


def _parse_index(name: str, text: str, may_be_root: bool) -> str:
    """Return CSS for :eq, :lt and :gt, which count siblings from 0; the root counts as the only one."""
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise SelectorError(f":{name}({text}) needs a number, counted from 0")
    index = int(text)
    if name == "gt":
        return f":nth-child(n+{index + 2})" + (":not(:root)" if may_be_root else "")
    if name == "lt" and not index:
        return ":not(*)"
    css = f":nth-child({index + 1})" if name == "eq" else f":nth-child(-n+{index})"
    if not may_be_root:
        return css
    return f":is({css}, :root)" if name == "lt" or not index else f"{css}:not(:root)"


def _compile_pattern(text: str) -> Pattern:
    try:
        return Pattern(text)
    except regex.error as error:
        raise SelectorError(f"the regular expression '{text}' does not parse: {error}") from None
    except RecursionError:
        raise SelectorError("a regular expression is nested too deep") from None
