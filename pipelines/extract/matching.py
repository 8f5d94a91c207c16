"""Matching: the elements of a page, or inside an element, that a parsed selector selects."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from threading import local
from typing import Protocol

from selectolax.lexbor import LexborCSSSelector, LexborNode

from pipelines.extract.patterns import Searched


class _Engine(local):
    """Lexbor's search: one for all pages of a thread, for its start takes a fifth of the time to parse a small page.

    Threads must not share one: when a search that makes nodes starts Python's garbage collection, finalizers let other
    threads run, and their searches overwrite its state (a segmentation fault).
    """

    find: Callable[[str, LexborNode], list[LexborNode]]
    find_first: Callable[[str, LexborNode], list[LexborNode]]

    def __init__(self) -> None:
        engine = LexborCSSSelector()
        self.find = engine.find
        self.find_first = engine.find_first  # pyright: ignore  (not in its stubs)


_engine = _Engine()


class SearchScope(Protocol):
    """The element to search in; for a page, the search includes the root element."""

    node: LexborNode
    is_page: bool

    @property
    def searched(self) -> Searched:
        """The CPU time of patterns on the page."""
        ...

    def page(self) -> SearchScope:
        """Return the scope of the whole page."""
        ...

    def at(self, node: LexborNode) -> SearchScope:
        """Return the scope of another element of the page."""
        ...

    def absolute(self, name: str) -> str | None:
        """Return an attribute of the element as an absolute URL."""
        ...


Predicate = Callable[[LexborNode], object]
Filter = Callable[[SearchScope], Predicate]


def is_scope(scope: SearchScope) -> Predicate:
    """Match the element that is searched, for a page its root: `:scope`."""
    root = scope.node.mem_id
    return lambda node: node.mem_id == root


@dataclass(frozen=True, slots=True)
class Compound:
    """Conditions on one element: `css` for lexbor, and `filters` for conditions that lexbor lacks."""

    css: str
    filters: tuple[Filter, ...]

    @property
    def chains(self) -> bool:
        """Whether a combinator may follow in one CSS selector; lexbor misses matches after :not() and :is()."""
        return not self.filters and ":not(" not in self.css and ":is(" not in self.css

    def apply_filters(self, nodes: list[LexborNode], scope: SearchScope) -> list[LexborNode]:
        for each in self.filters:
            if nodes:
                nodes = list(filter(each(scope), nodes))
        return nodes


@dataclass(frozen=True, slots=True)
class Step:
    """A compound with the combinator before it: '>', '+', '~' or ' '; '' for the first."""

    combinator: str
    compound: Compound


@dataclass(frozen=True)
class Complex:
    """Compounds joined by combinators; the last one selects."""

    steps: tuple[Step, ...]

    @cached_property
    def _leading(self) -> bool:
        return bool(self.steps[0].combinator)

    @cached_property
    def _native_steps(self) -> int:
        """The number of first steps that lexbor matches as one CSS selector, apart from the filters of the last."""
        if self._leading:
            return 0
        ends = (index for index, step in enumerate(self.steps) if not step.compound.chains)
        return next(ends, len(self.steps) - 1) + 1

    @cached_property
    def _native_css(self) -> str:
        return "".join(f"{step.combinator}{step.compound.css}" for step in self.steps[: self._native_steps])

    @cached_property
    def css(self) -> str | None:
        """All steps as one CSS selector; None if some of it needs filters."""
        whole = self._native_steps == len(self.steps) and not self.steps[-1].compound.filters
        return self._native_css if whole else None

    @cached_property
    def from_page(self) -> bool:
        """Whether it begins with :root, and so searches the whole page from any element."""
        return self.steps[0].compound.css.startswith(":root")

    def find(self, scope: SearchScope) -> list[LexborNode]:
        """Return the matches in document order, including the node of the scope."""
        if self.from_page and not scope.is_page:
            scope = scope.page()
        nodes, steps = self._find_start(scope)
        for step in steps:
            if not nodes:
                return nodes
            nodes = _find_next(step, nodes, scope)
        return nodes

    def matches_around(self, scope: SearchScope) -> bool:
        """Return whether there is a match inside the node of the scope, or after it for a leading + or ~."""
        root = scope.node
        if self.steps[0].combinator not in ("+", "~"):
            return any(node.mem_id != root.mem_id for node in self.find(scope))
        nodes, parent = [root], root.parent
        for step in self.steps:
            if parent is None or not nodes:
                return False
            nodes = _find_next(step, nodes, scope.at(parent))
        return bool(nodes)

    def _find_start(self, scope: SearchScope) -> tuple[list[LexborNode], tuple[Step, ...]]:
        first = self.steps[0].compound
        if first.css == "*" and first.filters == (is_scope,):
            return [scope.node], self.steps[1:]
        if self._leading:
            anchor = scope.node.parent if scope.is_page else scope.node
            return ([anchor] if anchor else []), self.steps
        # inside an element, lexbor would match ancestors outside of the scope
        taken = self._native_steps if scope.is_page else 1
        css = self._native_css if scope.is_page else self.steps[0].compound.css
        return self.steps[taken - 1].compound.apply_filters(_engine.find(css, scope.node), scope), self.steps[taken:]


@dataclass(frozen=True)
class Query:
    """A group of selectors, written as `text`; an element must match one of them."""

    selectors: tuple[Complex, ...]
    text: str

    @cached_property
    def compound_css(self) -> str | None:
        """The group as CSS if all selectors are single compounds without filters."""
        if any(len(selector.steps) > 1 or not selector.css for selector in self.selectors):
            return None
        return ", ".join(selector.css or "" for selector in self.selectors)

    @cached_property
    def _page_css(self) -> str | None:
        """CSS whose first match in a page is the first match of the group."""
        return self.selectors[0].css if len(self.selectors) == 1 else None

    @cached_property
    def _element_css(self) -> str | None:
        """The same for an element: one compound only, since lexbor would match combinators outside of the element, and
        not :root, which searches the page."""
        alone = len(self.selectors) == 1 and not self.selectors[0].from_page
        return self.compound_css if alone else None

    def find(self, scope: SearchScope) -> list[LexborNode]:
        """Return all matches in document order, including the node of the scope."""
        if len(self.selectors) == 1:
            return self.selectors[0].find(scope)
        found = {node.mem_id: node for selector in self.selectors for node in selector.find(scope)}
        if len(found) < 2:
            return list(found.values())
        if any(selector.from_page for selector in self.selectors):
            scope = scope.page()
        last = ", ".join({selector.steps[-1].compound.css: None for selector in self.selectors})
        ordered = (found.pop(node.mem_id, None) for node in _engine.find(last, scope.node))
        return [node for node in ordered if node]

    def matches_around(self, scope: SearchScope) -> bool:
        return any(selector.matches_around(scope) for selector in self.selectors)

    def find_owners(self, scope: SearchScope) -> set[int] | None:
        """Return the ids of the elements with a match inside or after them; null if all need their own search."""
        if any(len(selector.steps) > 1 for selector in self.selectors):
            return None
        found: set[int] = set()
        for selector in self.selectors:
            step = selector.steps[0]
            owners, known = _OWNERS[step.combinator], set[int]()
            for node in step.compound.apply_filters(_engine.find(step.compound.css, scope.node), scope):
                known.update(owners(node, known, scope.node.mem_id))
            found |= known
        return found

    def select(self, scope: SearchScope) -> list[LexborNode]:
        """Return all matches inside the node of the scope, for a page including its root element."""
        nodes = self.find(scope)
        outside = not scope.is_page and nodes and nodes[0].mem_id == scope.node.mem_id
        return nodes[1:] if outside else nodes

    def first(self, scope: SearchScope) -> LexborNode | None:
        """Return the first match inside the node of the scope."""
        css = self._page_css if scope.is_page else self._element_css
        if not css:
            return next(iter(self.select(scope)), None)
        found = _engine.find_first(css, scope.node)
        if found and not scope.is_page and found[0].mem_id == scope.node.mem_id:
            found = _engine.find(css, scope.node)[1:]
        return found[0] if found else None


def _find_next(step: Step, before: list[LexborNode], scope: SearchScope) -> list[LexborNode]:
    """Return the matches of `step` that its combinator connects to one of `before`."""
    related = _RELATIONS[step.combinator]
    left = _collect_following(before) if step.combinator == "~" else {node.mem_id for node in before}
    root = scope.node.mem_id
    nodes = [node for node in _engine.find(step.compound.css, scope.node) if related(node, left, root)]
    return step.compound.apply_filters(nodes, scope)


def _is_child(node: LexborNode, left: set[int], root: int) -> bool:
    parent = node.parent
    return parent is not None and parent.mem_id in left


def _is_descendant(node: LexborNode, left: set[int], root: int) -> bool:
    up: LexborNode | None = node
    while up is not None and up.mem_id != root:
        up = up.parent
        if up is not None and up.mem_id in left:
            return True
    return False


def _iter_previous(node: LexborNode) -> Iterable[LexborNode]:
    """Yield the sibling elements before `node`, nearest first."""
    before = node.prev
    while before is not None:
        if before.is_element_node:
            yield before
        before = before.prev


def _is_adjacent(node: LexborNode, left: set[int], root: int) -> bool:
    nearest = next(iter(_iter_previous(node)), None)
    return node.mem_id != root and nearest is not None and nearest.mem_id in left


def _collect_following(nodes: list[LexborNode]) -> set[int]:
    """Return the ids of all siblings after `nodes`, in linear time."""
    found: set[int] = set()
    for node in nodes:
        after = node.next
        while after is not None and after.mem_id not in found:
            found.add(after.mem_id)
            after = after.next
    return found


def _is_among(node: LexborNode, left: set[int], root: int) -> bool:
    return node.mem_id in left


def _iter_ancestors(node: LexborNode, known: set[int], root: int) -> Iterable[int]:
    """Yield the ancestors of `node` up to the root of the scope or a `known` one."""
    up = node.parent if node.mem_id != root else None
    while up is not None and up.mem_id not in known:
        yield up.mem_id
        up = up.parent if up.mem_id != root else None


def _iter_parent(node: LexborNode, known: set[int], root: int) -> Iterable[int]:
    return (up.mem_id for up in (node.parent,) if up is not None)


def _iter_nearest_before(node: LexborNode, known: set[int], root: int) -> Iterable[int]:
    return (before.mem_id for before in islice(_iter_previous(node), 1))


def _iter_all_before(node: LexborNode, known: set[int], root: int) -> Iterable[int]:
    """Yield the sibling elements before `node` back to a `known` one, before which all are known."""
    if node.mem_id != root:
        for before in _iter_previous(node):
            if before.mem_id in known:
                return
            yield before.mem_id


_OWNERS: dict[str, Callable[[LexborNode, set[int], int], Iterable[int]]] = {
    "": _iter_ancestors,
    ">": _iter_parent,
    "+": _iter_nearest_before,
    "~": _iter_all_before,
}
_RELATIONS: dict[str, Callable[[LexborNode, set[int], int], bool]] = {
    ">": _is_child,
    " ": _is_descendant,
    "+": _is_adjacent,
    "~": _is_among,
}
