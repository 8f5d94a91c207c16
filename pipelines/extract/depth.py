"""Bounds what a page can make a parser do over and over: nest, open formatting elements again, compare attributes."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from itertools import islice, product

import numpy as np
from numpy.typing import NDArray

_DEEPEST = 512  # as in Blink
_REMEMBERED = 16 * _DEEPEST  # elements; of those that are dropped because they are deeper, whose end tags go as well
_SUSPICIOUS = 8192  # tags; fewer cost little however they nest
_SMALL = 8192  # bytes; fewer cost little whatever stands in them
_WIDE = 65536  # bytes; fewer cost little though they are all one tag's attributes
_COPIED = 4 << 20  # bytes of formatting tags that a page may have opened again, besides its own size
_AT_ONCE = 16384  # tags whose beginnings are held
_HEAD = 128  # bytes; few formatting tags are longer
_FORMATTED = 64  # formatting elements open at once
_ATTRIBUTES = 512  # in one tag
_LEVELS = 4  # of elements closed behind text and each other, as in lists and tables
_LONG = 16384  # bytes; a page without a longer tag loses no time over attributes
_HTML, _SURELY_FOREIGN, _EITHER = range(3)  # what a start tag opens an element of
_LEFT = b""  # in place of the name of an element that is closed before those in it
_CDATA = b"<![CDATA["
_ALIKE = 3  # formatting elements that a parser remembers of one kind

_FORMATTING = frozenset(b"a b big code em font i nobr s small strike strong tt u".split())
_PLAIN = _FORMATTING | frozenset(
    b"span label abbr cite q sub sup var kbd samp dfn time mark ins del rt rp option optgroup".split()
)
_VOID = frozenset(b"area base br col embed img input link meta param source track wbr".split())
_FLAT = _VOID | frozenset(b"hr p tr td th thead tbody tfoot colgroup html head body".split())
_ITEMS = {b"li": b"li", b"dd": b"dd", b"dt": b"dd"}  # families; an item ends another of its own
_RAW = frozenset(b"script style textarea title xmp noframes iframe noembed plaintext".split())
_FOREIGN = frozenset((b"svg", b"math"))
_INTEGRATION = frozenset(b"foreignobject desc title annotation-xml mi mo mn ms mtext".split())
_SCOPES = frozenset(b"applet caption marquee object table template select button".split())
_BOUNDARIES = _SCOPES | _FOREIGN | _INTEGRATION
_MARKERS = frozenset(b"applet caption marquee object template td th".split())
# These end whatever is open in them; other elements only what is formatting or a word of the text.
_BLOCKS = _SCOPES | frozenset(
    b"""address article aside blockquote center details dialog dir div dl fieldset figcaption figure footer header
    hgroup h1 h2 h3 h4 h5 h6 listing main menu nav ol pre search section summary ul""".split()
)
# The parser may have ignored or ended others, so that their end tags end nothing of what is open in them.
_SURELY_OPEN = _BLOCKS - frozenset(b"caption select button h1 h2 h3 h4 h5 h6".split())
_BREAKING_OUT = (_FORMATTING - {b"a"}) | frozenset(
    b"""blockquote body br center dd div dl dt embed h1 h2 h3 h4 h5 h6 head hr img li listing menu meta ol p pre ruby
    span sub sup table ul var""".split()
)

_VALUE = rb"(?:\"[^\"]*+(?:\"|\Z)|'[^']*+(?:'|\Z)|[^ \t\n\r\f>\"'][^ \t\n\r\f>]*+)"
_ATTRIBUTE = rb"[^ \t\n\r\f/>][^ \t\n\r\f/>=]*+(?:[ \t\n\r\f]*+=[ \t\n\r\f]*+" + _VALUE + rb"?+)?+"
_NAME = re.compile(_ATTRIBUTE)
_TOKEN = re.compile(
    rb"<!--(?:-?>|(?:[^-]++|-(?!-!?>))*+(?:--!?>)?)|<!\[CDATA\[|<[!?][^>]*+>?|</>|</[^a-zA-Z>][^>]*+>?"
    rb"|<(/?[a-zA-Z][^ \t\n\r\f/>]*+)((?:[ \t\n\r\f]++|/(?!>)|" + _ATTRIBUTE + rb")*+)(/?+)>?"
)
_IN_SCRIPT = re.compile(rb"<!---?>|<!--|-->|<(/?)script(?=[ \t\n\r\f/>])", re.IGNORECASE)
_ENDS = {name: re.compile(rb"</" + name + rb"(?=[ \t\n\r\f/>])", re.IGNORECASE) for name in _RAW}
_QUOTED_END = re.compile(rb"=[ \t\n\r\f]*+(?:\"[^\">]*+>|'[^'>]*+>)")
# Attributes up to a `>` that surely ends the tag, for quotes are only where they open and close a value.
_PLAIN_ATTRIBUTE = (
    rb"(?:[ \t\n\r\f]++[^ \t\n\r\f<>\"'=/\0]++(?:=(?:\"[^\"<>\0]*+\"|'[^'<>\0]*+'|[^ \t\n\r\f<>\"'=\0]++))?+)"
)
_PLAIN_ATTRIBUTES = _PLAIN_ATTRIBUTE + rb"*+[ \t\n\r\f/]*+>"
_ALLOWED_ATTRIBUTES = _PLAIN_ATTRIBUTE + rb"{0,%d}+[ \t\n\r\f/]*+>" % _ATTRIBUTES
_PLAIN_TAG = re.compile(rb"<[a-zA-Z]++" + _PLAIN_ATTRIBUTES)
_OPENED_AGAIN = _FORMATTING - {b"a"}  # the next link ends one
_LEFT_OPEN = re.compile(
    rb"(?i)<(" + b"|".join(sorted(_OPENED_AGAIN)) + rb")(?=[ \t\n\r\f/>])"
    rb"(?!" + _PLAIN_ATTRIBUTES + rb"[^<]*+</\1[ \t\n\r\f]*+>)"  # closed behind text
)
_CLOSED = re.compile(rb"(?i)<(?!html|body)([a-z][a-z0-9]*+)" + _PLAIN_ATTRIBUTES + rb"[^<]*+</\1[ \t\n\r\f]*+>")
_CONTENT = rb"(?:[^<]++|<(?:" + b"|".join(sorted(_VOID)) + rb")" + _ALLOWED_ATTRIBUTES + rb")*+"
_NOT_BY_ITSELF = _RAW | _FOREIGN | _ITEMS.keys() | {b"html", b"body", b"option"}


def _run(item: bytes) -> re.Pattern[bytes]:
    """Text and tags that open and close nothing, in an item of this name."""
    flat = [b"/?" + name for name in sorted(_FLAT) if name not in (b"html", b"body")]
    items = [name for name, family in _ITEMS.items() if family == _ITEMS.get(item)]
    return re.compile(rb"(?i)(?:[^<]++|<(?:" + b"|".join([*flat, *items]) + rb")" + _ALLOWED_ATTRIBUTES + rb")++")


def _element(group: int, excluded: frozenset[bytes], inside: bytes = b"") -> bytes:
    """An element that its own end tag closes; `group` has its name."""
    start = rb"<(?!(?:" + b"|".join(sorted(excluded)) + rb")[ \t\n\r\f/>])([a-z][a-z0-9]*+)" + _ALLOWED_ATTRIBUTES
    return start + _CONTENT + inside + rb"</\%d[ \t\n\r\f]*+>" % group


# Where no formatting element is open, both leave open what was.
_RUNS = {item: _run(item) for item in (b"", *_ITEMS)}
_INSIDE = rb"(?:" + _element(2, _NOT_BY_ITSELF | _MARKERS) + _CONTENT + rb"){0,8}"
_ELEMENT = re.compile(rb"(?i)" + _element(1, _NOT_BY_ITSELF, _INSIDE))
# Before Python 3.11.5 a possessive group ends behind what its last repetition read, also where that failed.
_RELIABLE = re.fullmatch(rb"(?:a|</?b)++<c", b"a<c") is not None


def may_take_long(html: bytes) -> bool:
    """Whether the page may cost a parser more than its size explains."""
    if len(html) < _SMALL:
        return False
    tags = np.flatnonzero(np.frombuffer(html, np.uint8) == ord("<"))
    return _may_nest(html, len(tags)) or _copies(html, tags) or (len(html) >= _WIDE and _has_long_tag(html))


def bounded(html: bytes) -> bytes:
    """`html` without the tags, though with the text, of what costs a parser more than the page's size explains."""
    return _Walk(html).kept()


def _may_nest(html: bytes, tags: int) -> bool:
    """Whether the tags are many and many of them may be open, not closed behind text or behind each other.

    Each tag may go through all that are open. Ten times as quick as the walk. In comments, scripts and quotes what is
    taken for closed has opened nothing; a NUL in its place keeps what was beside it from making another tag.
    """
    open_ = tags
    for _ in range(_LEVELS):
        if open_ * tags < _SUSPICIOUS**2:
            break
        html, closed = _CLOSED.subn(b"\0", html)
        open_ -= 2 * closed
    return open_ * tags >= _SUSPICIOUS**2


def _has_long_tag(html: bytes) -> bool:
    """Whether a tag may be longer than `_LONG`: no `>` for so long, or one in quotes."""
    at = 0
    while len(html) - at > _LONG:
        end = html.rfind(b">", at, at + _LONG)
        if end < 0:
            return True
        at = end + 1
    return _QUOTED_END.search(html) is not None


def _name_beginnings() -> NDArray[np.bool_]:
    """By the two bytes behind a `<`, as a little-endian number: whether a formatting element may begin so."""
    found = np.zeros(1 << 16, np.bool_)
    for name in _OPENED_AGAIN:
        behind = name[1:2] + name[1:2].upper() or b" \t\n\r\f/>"
        for first, second in product((name[0], name[0] - 32), behind):
            found[first | second << 8] = True
    return found


_BEGINNINGS = _name_beginnings()


def _copies(html: bytes, tags: NDArray[np.intp]) -> bool:
    """Whether formatting elements, opened again behind each of the `tags`, may exceed what is allowed.

    Few on most pages, as a parser remembers only some of each kind; else it counts which may be left open at all.
    """
    allowed = (_COPIED + len(html)) // max(len(tags), 1)
    if len(html) <= allowed:
        return False
    padded = html + bytes(_HEAD)  # so that as many bytes can be read at each place
    behind = np.ndarray(len(html), "<u2", padded, 1, (1,))
    starts = tags[_BEGINNINGS[behind[tags]]]
    heads = np.ndarray(len(html), f"V{_HEAD}", padded, 0, (1,))
    kinds = set[bytes]()
    for at in range(0, len(starts), _AT_ONCE):
        kinds.update(head[: head.find(b">") + 1] for head in heads[starts[at : at + _AT_ONCE]].tolist())
    few = _ALIKE * sum(map(len, kinds)) <= allowed and all(map(_PLAIN_TAG.fullmatch, kinds))
    return not few and _left_open(html, starts.tolist(), allowed)


def _left_open(html: bytes, starts: list[int], allowed: int) -> bool:
    """Whether the tags of formatting elements that are not closed behind their text exceed `allowed` bytes."""
    size = 0
    for start in starts:
        tag = _TOKEN.match(html, start) if _LEFT_OPEN.match(html, start) else None
        size += len(tag.group()) if tag else 0
        if size > allowed:
            return True
    return False


class _Walk:
    """Goes through the tags of a page as a tokenizer does, and never takes for closed what a parser holds open."""

    def __init__(self, html: bytes) -> None:
        self._html = html
        self._open: list[tuple[bytes, int]] = []  # names, and _HTML, _SURELY_FOREIGN or _EITHER
        self._places: defaultdict[bytes, list[int]] = defaultdict(list)
        self._boundaries: list[int] = []
        self._special: list[int] = []
        self._dropped = Counter[bytes]()  # names of elements that are open besides
        self._formatting: list[tuple[bytes, bytes]] = []  # names and tags
        self._alike: Counter[bytes] = Counter()
        self._settled = 0  # formatting elements outside the last cell or the like, which no tag in it ends
        self._formatted = self._size = self._copied = 0
        self._page_attributes = 0
        self._unsure = False  # whether the SVG or MathML that is open may have been left

    def kept(self) -> bytes:
        html, out, written, at = self._html, bytearray(), 0, 0
        while found := _TOKEN.search(html, self._calm(at)):
            start, at = found.span()
            name = found.group(1)
            if name is None:
                new, at = self._comment(found)
            elif name.startswith(b"/"):
                new = found.group() if self._end(name[1:].lower()) else b""
            else:
                new, at = self._start(name.lower(), found)
            if not new and html.endswith(b"<", 0, start):
                new = b" "  # that sign would begin a tag with what follows
            if len(new) != at - start:
                out += html[written:start]
                out += new
                written = at
        return bytes(out) + html[written:] if written else html

    def _calm(self, at: int) -> int:
        """The end of what leaves the walk as it is, gone through at once: most of an ordinary page."""
        if self._size or self._dropped or len(self._open) + 1 >= _DEEPEST or self._kind() != _HTML or not _RELIABLE:
            return at
        around = self._open[self._special[-1]][0] if self._special else b""
        run = _RUNS.get(around, _RUNS[b""])
        while found := run.match(self._html, at) or _ELEMENT.match(self._html, at):
            at = found.end()
        return at

    def _kind(self) -> int:
        kind = self._open[-1][1] if self._open else _HTML
        return _EITHER if kind and self._unsure else kind

    def _comment(self, found: re.Match[bytes]) -> tuple[bytes, int]:
        """What is kept of a comment, and where the next token may begin."""
        comment, end = found.group(), found.end()
        if comment != _CDATA:
            return comment, end
        kind = self._kind()
        if kind == _EITHER or (kind != _HTML and len(self._open) > _DEEPEST):
            return b"", end
        close = self._html.find(b">" if kind == _HTML else b"]]>", end)
        end = len(self._html) if close < 0 else close
        return self._html[found.start() : end], end

    def _start(self, name: bytes, found: re.Match[bytes]) -> tuple[bytes, int]:
        """What is kept of a start tag, with the text that a tokenizer takes as such, and where the next one begins."""
        tag, end, kind = _with_fewer_attributes(found), found.end(), self._kind()
        if name in _RAW and kind != _SURELY_FOREIGN:
            if kind == _EITHER or self._places[b"select"] or self._places[b"frameset"] or self._exhausted():
                return b"", end
            end = self._raw_end(name, end)
            return tag + self._html[found.end() : end], end
        if name in (b"html", b"body"):
            self._page_attributes += sum(1 for _ in _NAME.finditer(found.group(2)))
            if self._page_attributes > _ATTRIBUTES:
                return b"", end
        if len(self._open) >= _REMEMBERED:
            if name not in _FLAT and not found.group(3) and (name in self._dropped or len(self._dropped) < _DEEPEST):
                self._dropped[name] += 1
            return b"", end
        if name in _FORMATTING and not (name == b"a" and kind == _SURELY_FOREIGN):
            if not self._format(name, found.group()):
                return b"", end
        else:
            self._copied += self._size
        if self._exhausted():
            return b"", end
        if name in _MARKERS:
            self._settled = len(self._formatting)
        self._push(name, kind, bool(found.group(3)))
        return (tag if len(self._open) <= _DEEPEST else b""), end

    def _push(self, name: bytes, kind: int, closed: bool) -> None:
        if kind == _HTML:
            self._unsure = bool(self._places[b"select"])
        elif name in _BREAKING_OUT:
            self._unsure = True
        inside = kind == _SURELY_FOREIGN and name not in _BREAKING_OUT
        if name in _FOREIGN or inside:
            if closed and not self._unsure:
                return
            kind = _EITHER if name in _INTEGRATION else _SURELY_FOREIGN
        elif kind != _HTML:
            kind = _EITHER
        elif name in _FLAT or self._ends_alike(name):
            return
        place = len(self._open)
        self._open.append((name, kind))
        self._places[name].append(place)
        if name in _BOUNDARIES:
            self._boundaries.append(place)
        if (name not in _PLAIN or (kind == _EITHER and name in _BREAKING_OUT)) and kind != _SURELY_FOREIGN:
            self._special.append(place)

    def _ends_alike(self, name: bytes) -> bool:
        """Whether a start tag ends an element in whose place its own opens."""
        if name == b"option":
            return bool(self._open) and self._open[-1] == (name, _HTML)
        if name not in _ITEMS or not self._special:
            return False
        around, kind = self._open[self._special[-1]]
        return kind == _HTML and _ITEMS.get(around) == _ITEMS[name]

    def _place(self, name: bytes) -> int | None:
        """Where the element is open that a tag of this name ends."""
        places = self._places.get(name)
        if not places:
            return None
        inner = self._boundaries if name in _BLOCKS and self._open[places[-1]][1] == _HTML else self._special
        if (inner and inner[-1] > places[-1]) or (self._boundaries and self._boundaries[-1] > places[-1]):
            return None
        return places[-1]

    def _close(self, place: int) -> None:
        while place and self._open[place - 1][0] == _LEFT:
            place -= 1
        for name, _ in self._open[place:]:
            self._places[name].pop()
        del self._open[place:]
        for places in (self._boundaries, self._special):
            while places and places[-1] >= place:
                places.pop()

    def _leave(self, place: int) -> None:
        """Closes an element, but none that is open in it."""
        if place == len(self._open) - 1:
            return self._close(place)
        name, kind = self._open[place]
        self._open[place] = _LEFT, kind
        self._places[name].pop()
        self._places[_LEFT].append(place)
        for places in (self._boundaries, self._special):
            at = bisect_left(places, place)
            del places[at : at + (place in places[at : at + 1])]

    def _end(self, name: bytes) -> bool:
        """Whether an end tag is kept."""
        if self._dropped.get(name):
            self._dropped[name] -= 1
            return False
        deep, exhausted, place = len(self._open) > _DEEPEST, self._exhausted(), self._place(name)
        self._copied += self._size
        if place is None:
            self._unsure = self._unsure or self._kind() != _HTML
            return name in _RAW or not (deep or exhausted)
        formatting = name in _FORMATTING
        if exhausted and not formatting:
            return False
        if name in _SURELY_OPEN or self._open[place][1] != _HTML:
            self._close(place)
        else:
            self._leave(place)
        if formatting:
            self._forget(name)
        return place < _DEEPEST

    def _format(self, name: bytes, tag: bytes) -> bool:
        """Whether one more formatting element may be opened."""
        if name == b"a" and (place := self._place(name)) is not None:
            self._leave(place)
            self._forget(name)
        if self._alike[tag] < _ALIKE:
            if self._formatted >= _FORMATTED or self._exhausted():
                return False
            self._formatted += 1
            self._size += len(tag)
        inside = [at for at in range(self._settled, len(self._formatting)) if self._formatting[at][1] == tag]
        if len(inside) >= _ALIKE:
            del self._formatting[inside[0]]
        else:
            self._alike[tag] += 1
        self._formatting.append((name, tag))
        return True

    def _forget(self, name: bytes) -> None:
        for at in range(len(self._formatting) - 1, self._settled - 1, -1):
            if self._formatting[at][0] == name:
                _, tag = self._formatting.pop(at)
                self._alike[tag] -= 1
                if self._alike[tag] < _ALIKE:
                    self._formatted -= 1
                    self._size -= len(tag)
                return

    def _exhausted(self) -> bool:
        return self._size > 0 and self._copied > _COPIED + len(self._html)

    def _raw_end(self, name: bytes, start: int) -> int:
        if name == b"plaintext":
            return len(self._html)
        if name == b"script":
            return self._script_end(start)
        close = _ENDS[name].search(self._html, start)
        return close.start() if close else len(self._html)

    def _script_end(self, start: int) -> int:
        """A script in a comment in a script does not end it."""
        escaped = twice = False
        for mark in _IN_SCRIPT.finditer(self._html, start):
            text = mark.group()
            if text == b"<!--":
                escaped = True
            elif text == b"-->":
                escaped = twice = False
            elif text.startswith(b"<!"):
                continue
            elif not mark.group(1):
                twice = escaped
            elif twice:
                twice = False
            else:
                return mark.start()
        return len(self._html)


def _with_fewer_attributes(tag: re.Match[bytes]) -> bytes:
    """The tag without the attributes after the most that one may have."""
    if len(tag.group(2)) < 2 * _ATTRIBUTES:
        return tag.group()
    html = tag.string
    next_one = next(islice(_NAME.finditer(html, tag.start(2), tag.end(2)), _ATTRIBUTES, None), None)
    return html[tag.start() : next_one.start()] + tag.group(3) + b">" if next_one else tag.group()
