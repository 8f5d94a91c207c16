"""Finds the elements that a parsed selector means, relative to an element or the page."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Protocol

from selectolax.lexbor import LexborCSSSelector, LexborNode

from pipelines.extract.patterns import Searched

# One for all pages: what it sets up when it is first used costs as much as a fifth of parsing a small page.
_engine = LexborCSSSelector()
_find_first: Callable[[str, LexborNode], list[LexborNode]] = _engine.find_first  # pyright: ignore  (not in its stubs)


class SearchScope(Protocol):
    """Where is searched: inside `node`, an element; of a page that is the root element, which is then searched too."""

    node: LexborNode
    is_page: bool

    @property
    def searched(self) -> Searched:
        """What patterns have taken on the page."""
        ...

    def page(self) -> SearchScope:
        """The whole page."""
        ...

    def at(self, node: LexborNode) -> SearchScope:
        """Another element of the page."""
        ...

    def absolute(self, name: str) -> str | None:
        """The attribute of the element as an absolute address; None without it."""
        ...


Predicate = Callable[[LexborNode], object]
Filter = Callable[[SearchScope], Predicate]


@dataclass(frozen=True, slots=True)
class Compound:
    """What one element must be: `css` as lexbor decides it, and `filters` for what it can't."""

    css: str
    filters: tuple[Filter, ...]

    @property
    def chains(self) -> bool:
        """Whether a combinator may follow within one CSS selector; lexbor misses matches after :not() and :is()."""
        return not self.filters and ":not(" not in self.css and ":is(" not in self.css

    def apply_filters(self, nodes: list[LexborNode], scope: SearchScope) -> list[LexborNode]:
        for each in self.filters:
            if nodes:
                nodes = list(filter(each(scope), nodes))
        return nodes


@dataclass(frozen=True, slots=True)
class Step:
    """A compound and how it stands to the one before: '>', '+', '~', ' '; '' for the first."""

    combinator: str
    compound: Compound


@dataclass(frozen=True)
class Complex:
    """Compounds joined by combinators; the element that is meant is the last."""

    steps: tuple[Step, ...]

    @cached_property
    def _leading(self) -> bool:
        return bool(self.steps[0].combinator)

    @cached_property
    def _native_steps(self) -> int:
        """How many steps, from the first, are one CSS selector that lexbor decides but for the filters of its last."""
        if self._leading:
            return 0
        ends = (index for index, step in enumerate(self.steps) if not step.compound.chains)
        return next(ends, len(self.steps) - 1) + 1

    @cached_property
    def _native_css(self) -> str:
        return "".join(f"{step.combinator}{step.compound.css}" for step in self.steps[: self._native_steps])

    @cached_property
    def css(self) -> str | None:
        """The whole as one CSS selector; None when lexbor alone can't decide it."""
        whole = self._native_steps == len(self.steps) and not self.steps[-1].compound.filters
        return self._native_css if whole else None

    @cached_property
    def from_page(self) -> bool:
        """It begins with :root, so it is searched in the page, wherever it stands."""
        return self.steps[0].compound.css.startswith(":root")

    def find(self, scope: SearchScope) -> list[LexborNode]:
        """In document order; the scope's node itself is among them when it matches."""
        if self.from_page and not scope.is_page:
            scope = scope.page()
        nodes, steps = self._find_start(scope)
        for step in steps:
            if not nodes:
                return nodes
            nodes = _find_next(step, nodes, scope)
        return nodes

    def matches_around(self, scope: SearchScope) -> bool:
        """Whether there is a match inside the scope's node, or after it when it begins with + or ~."""
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
        if self._leading:
            anchor = scope.node.parent if scope.is_page else scope.node
            return ([anchor] if anchor else []), self.steps
        # beyond the page's own root lexbor would look at ancestors that are out of scope
        taken = self._native_steps if scope.is_page else 1
        css = self._native_css if scope.is_page else self.steps[0].compound.css
        return self.steps[taken - 1].compound.apply_filters(_engine.find(css, scope.node), scope), self.steps[taken:]


@dataclass(frozen=True)
class Query:
    """Selectors of which an element must match one."""

    selectors: tuple[Complex, ...]

    @cached_property
    def compound_css(self) -> str | None:
        """The group as CSS when each selector is a single compound that lexbor alone decides."""
        if any(len(selector.steps) > 1 or not selector.css for selector in self.selectors):
            return None
        return ", ".join(selector.css or "" for selector in self.selectors)

    @cached_property
    def _page_css(self) -> str | None:
        """CSS whose first match is the first of all, with a page as scope."""
        return self.selectors[0].css if len(self.selectors) == 1 else None

    @cached_property
    def _element_css(self) -> str | None:
        """The same with an element as scope: of one compound, as what is around the element would help lexbor to match
        a combinator's left side; and not with :root, which is searched in the page."""
        alone = len(self.selectors) == 1 and not self.selectors[0].from_page
        return self.compound_css if alone else None

    def find(self, scope: SearchScope) -> list[LexborNode]:
        """All matches in document order, each once; the scope's node is among them when it matches."""
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
        """The elements of the scope around which something is found; None when they must be looked at one by one."""
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
        """All matches inside the scope's node, which for a page includes its root element."""
        nodes = self.find(scope)
        outside = not scope.is_page and nodes and nodes[0].mem_id == scope.node.mem_id
        return nodes[1:] if outside else nodes

    def first(self, scope: SearchScope) -> LexborNode | None:
        """The first match inside the scope's node."""
        css = self._page_css if scope.is_page else self._element_css
        if not css:
            return next(iter(self.select(scope)), None)
        found = _find_first(css, scope.node)
        if found and not scope.is_page and found[0].mem_id == scope.node.mem_id:
            found = _engine.find(css, scope.node)[1:]
        return found[0] if found else None


def _find_next(step: Step, before: list[LexborNode], scope: SearchScope) -> list[LexborNode]:
    """The elements of `step` that stand in its relation to one of `before`."""
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
    """The elements before `node` among its siblings, nearest first."""
    before = node.prev
    while before is not None:
        if before.is_element_node:
            yield before
        before = before.prev


def _is_adjacent(node: LexborNode, left: set[int], root: int) -> bool:
    nearest = next(iter(_iter_previous(node)), None)
    return node.mem_id != root and nearest is not None and nearest.mem_id in left


def _collect_following(nodes: list[LexborNode]) -> set[int]:
    """What follows one of `nodes` among its siblings; each is come by once, however long the list."""
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
    """The elements that `node` is inside of, up to the scope's root or one that is `known`."""
    up = node.parent if node.mem_id != root else None
    while up is not None and up.mem_id not in known:
        yield up.mem_id
        up = up.parent if up.mem_id != root else None


def _iter_parent(node: LexborNode, known: set[int], root: int) -> Iterable[int]:
    return (up.mem_id for up in (node.parent,) if up is not None)


def _iter_nearest_before(node: LexborNode, known: set[int], root: int) -> Iterable[int]:
    return (before.mem_id for before in islice(_iter_previous(node), 1))


def _iter_all_before(node: LexborNode, known: set[int], root: int) -> Iterable[int]:
    """The elements before `node` among its siblings, back to one that is `known`, before which all are."""
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
