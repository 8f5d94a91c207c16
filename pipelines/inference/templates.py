"""Templates of a host: pages whose trees have the same paths of tags, up to a few."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from selectolax.lexbor import LexborNode, create_tag

from pipelines.extract.document import Document

_MAX_NODES = 160  # elements that are visited: 15 µs
_FIRST_ELEMENT = 6  # lexbor's numbers below are those of text, comments and documents
_KNOWN_TAGS = 256  # numbers above are those of unknown names, which differ between processes
# parts that all templates of a host share
_SHARED = frozenset(create_tag(name).tag_id for name in ("head", "nav", "footer", "script", "style", "svg", "form"))
_MIN_LIKENESS = 0.7  # of two sets of paths, by Jaccard
_BITS = 0x7FFFFFFF

Features = Sequence[int]


def get_features(document: Document) -> tuple[int, ...]:
    """Return the paths of tags near the top of a page as sorted numbers, equal in all processes.

    Classes and ids are not among them: a page whose markup was renamed keeps its template, and drift is found.
    """
    node = document.root.node
    if node is None:
        return ()
    level: list[tuple[LexborNode, int]] = [(node, 1)]
    seen: set[int] = set()
    left = _MAX_NODES
    while level:
        below: list[tuple[LexborNode, int]] = []
        for parent, path in level:
            child, last = parent.first_child, 0
            while child is not None and left:
                left -= 1
                tag = child.tag_id
                if tag != last and tag >= _FIRST_ELEMENT:
                    last = tag
                    key = (path * 1_000_003 + (tag if tag < _KNOWN_TAGS else _KNOWN_TAGS)) & _BITS
                    if key not in seen and tag not in _SHARED:
                        seen.add(key)
                        below.append((child, key))
                child = child.next
        level = below
    return tuple(sorted(seen))


class Templates:
    """The templates of one host: each page is of the most similar one, or of a new one."""

    def __init__(self, known: Mapping[str, Features] | None = None) -> None:
        self._known = {name: frozenset(features) for name, features in (known or {}).items()}
        self._assigned: dict[Features, str] = {tuple(sorted(each)): name for name, each in self._known.items()}

    def get_features(self, template: str) -> tuple[int, ...]:
        """Return the features of a template: those of its first page."""
        return tuple(sorted(self._known[template]))

    def assign(self, features: tuple[int, ...]) -> str:
        """Return the template of a page; its name depends only on its first page."""
        if (name := self._assigned.get(features)) is not None:
            return name
        paths = frozenset(features)
        best = max(self._known, key=lambda name: (_compare(paths, self._known[name]), name), default=None)
        if best is None or _compare(paths, self._known[best]) < _MIN_LIKENESS:
            best = hashlib.blake2b(repr(features).encode(), digest_size=8).hexdigest()
            self._known[best] = paths
        self._assigned[features] = best
        return best


def _compare(a: frozenset[int], b: frozenset[int]) -> float:
    return len(a & b) / len(a | b) if a or b else 1.0
