"""Candidates: selectors of a known element, ranked by how well they survive changes of the markup."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from selectolax.lexbor import LexborNode

from pipelines.extract.document import Element
from pipelines.extract.selectors import SelectorError, compile_selector
from pipelines.inference.grounding import Location, get_previous
from pipelines.inference.records import MAX_SELECTOR, Candidate, Reading

MAX_KEPT = 4
POSITION = "position"

_NAME = re.compile(r"[a-zA-Z][a-zA-Z_-]*(?:\d(?!\d))?[a-zA-Z_-]*")  # not generated: at most one digit in a row
_LABEL = re.compile(r"[\w .,&/+-]{2,40}:?")
_ANY_CLASS = re.compile(r"\.((?:[\w-]|\\.)+)|\[class[^\]]*\]")
_DEPENDENCIES = (
    ("id", re.compile(r"#((?:[\w-]|\\.)+)"), 100),
    ("itemprop", re.compile(r"\[itemprop\W+([\w-]+)"), 95),
    ("property", re.compile(r"\[(?:property|name)\W+([\w:.-]+)"), 90),
    ("data", re.compile(r"\[(data-[\w-]+)"), 85),
    ("label", re.compile(r":contains(?:Own)?\(([^)]*)\)", re.IGNORECASE), 75),
)
_POSITION = re.compile(r":nth|:first-child|:last-child|:first-of|:last-of|:only|:eq\(|:lt\(|:gt\(|[+~]")
_UNIQUE_TAGS = frozenset(("h1", "time", "address", "main", "title", "figure"))
_TOP = (None, "-undef", "html", "body")
_STATES = frozenset(("active", "selected", "first", "last", "odd", "even", "open", "hidden", "visible", "row", "col"))


def rate_selector(selector: str) -> tuple[int, frozenset[str]]:
    """Return the stability of a selector, and its dependencies; the weakest part counts.

    Two selectors that share a class, or that both count positions, break with one change.
    """
    rest = re.sub(r"\"[^\"]*\"|'[^']*'", lambda match: match.group().replace(".", "").replace("#", ""), selector)
    found: set[str] = set()
    ratings: list[int] = []
    for kind, pattern, rating in _DEPENDENCIES:
        for match in pattern.finditer(rest if kind in ("id", "label") else selector):
            found.add(f"{kind}:{match.group(1).strip().casefold()}")
            ratings.append(rating)
    is_label = any(each.startswith("label:") for each in found)
    bare = re.sub(r"\[(?!class)[^\]]*\]|\([^)]*\)", "", rest)
    for match in _ANY_CLASS.finditer(bare):
        found.add(f"class:{(match.group(1) or match.group()).casefold()}")
        ratings.append(60)
    # a neighbour that is found by its label is no position
    if _POSITION.search(re.sub(r"\s*[+~]\s*\w+\s*$", "", bare) if is_label else bare):
        found.add(POSITION)
        ratings.append(10)
    tags = re.findall(r"[a-z][a-z0-9]*", bare)
    if not found:
        found.add(f"tag:{tags[-1] if tags else '*'}")
        ratings.append(70 if tags and tags[-1] in _UNIQUE_TAGS else 45)
    if not names_target(selector):
        ratings.append(min(ratings) - 15)
    steps = len(re.findall(r"[ >]+", selector.strip()))
    return max(min(ratings) - min(steps, 9), 1), frozenset(found)


def names_target(selector: str) -> bool:
    """Return whether the element itself is named, not only one around it, of which another child may be the first."""
    last = re.split(r"[\s>]+(?![^(\[]*[)\]])", selector.strip())[-1]
    return last in _UNIQUE_TAGS or any(sign in last for sign in "#.[(") or ":contains" in selector


def make_candidate(reading: Reading, agreed: int) -> Candidate:
    """Return a reading as a candidate that some pages agree with."""
    stability = rate_selector(reading.selector)[0]
    return Candidate(reading=reading, stability=stability, exact=names_target(reading.selector), agreed=agreed)


def make_readings(location: Location, root: Element) -> Iterator[Reading]:
    """Yield the readings of a value's place inside a page or segment."""
    for selector in make_selectors(location.node, root.node):
        if (reading := make_reading(selector, location.method, location.after)) is not None:
            yield reading


def make_reading(selector: str, method: str, after: str = "") -> Reading | None:
    """Return a checked reading, None for a selector that is not valid."""
    try:
        if len(selector) <= MAX_SELECTOR:
            compile_selector(selector)
            return Reading(selector=selector, method=method, after=after)
    except (SelectorError, ValueError):
        pass
    return None


def make_selectors(node: LexborNode, root: LexborNode | None) -> Iterator[str]:
    """Yield selectors of an element: by itself, by its label, inside of its ancestors, and by its position."""
    own = list(_make_parts(node))
    yield from own
    yield from _make_label_selectors(node)
    tag = node.tag or "*"
    chain, anchored, parent = tag, False, node.parent
    position = _make_step(node)
    for _ in range(8):
        if parent is None or parent.tag in _TOP or (root is not None and parent.mem_id == root.mem_id):
            break
        for part in _make_parts(parent):
            if part == parent.tag and parent.tag in ("div", "span"):
                continue
            yield f"{part} {tag}"
            yield from (f"{part} {each}" for each in own if each != tag)
            yield f"{part} > {chain}"
            if not anchored and part != parent.tag:
                yield f"{part} > {position}"
                anchored = True
        chain = f"{parent.tag} > {chain}"
        position = f"{_make_step(parent)} > {position}"
        parent = parent.parent
    yield chain
    yield position


def _make_parts(node: LexborNode) -> Iterator[str]:
    attributes, tag = node.attributes, node.tag or "*"
    if (name := attributes.get("id")) and _NAME.fullmatch(name):
        yield f"#{name}"
    if (name := attributes.get("itemprop")) and _NAME.fullmatch(name):
        yield f'[itemprop="{name}"]'
    for key in ("property", "name"):
        if (name := attributes.get(key)) and re.fullmatch(r"[\w:.-]+", name):
            yield f'{tag}[{key}="{name}"]'
    for key, value in attributes.items():
        if key.startswith("data-") and value and _NAME.fullmatch(value):
            yield f'[{key}="{value}"]'
    for name in (attributes.get("class") or "").split()[:6]:
        if _NAME.fullmatch(name) and name not in _STATES:
            yield f"{tag}.{name}"
    yield tag


def _make_label_selectors(node: LexborNode) -> Iterator[str]:
    before = get_previous(node)
    if before is None or node.tag is None:
        return
    label = " ".join((before.text() or "").split())
    if _LABEL.fullmatch(label) and not re.search(r"\d", label):
        yield f"{before.tag}:containsOwn({label}) + {node.tag}"


def _make_step(node: LexborNode) -> str:
    position, before = 1, node.prev
    while before is not None:
        position += before.tag == node.tag
        before = before.prev
    return f"{node.tag}:nth-of-type({position})"


def rank_candidates(candidates: Iterable[Candidate]) -> tuple[Candidate, ...]:
    """Return the best candidates that depend on different things, the best first."""
    kept: list[Candidate] = []
    used: set[str] = set()
    ordered = sorted(
        candidates,
        key=lambda each: (each.extras > 0, -each.stability, len(each.reading.selector), each.reading.selector),
    )
    for candidate in ordered:
        dependencies = rate_selector(candidate.reading.selector)[1]
        if used.isdisjoint(dependencies):
            used |= dependencies
            kept.append(candidate)
        if len(kept) == MAX_KEPT:
            break
    return tuple(kept)


def has_enough(candidates: Sequence[Candidate]) -> bool:
    """Return whether two candidates that depend on different things do not count positions."""
    stable = (each for each in rank_candidates(candidates) if each.stability >= 40)
    return len(list(stable)) >= 2
