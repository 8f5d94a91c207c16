"""What imports what, read from the text of the code: which test files one change can break, the nearest first."""

from __future__ import annotations

import ast
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tests.gate.costs import ROOT

FOLDERS = ("api", "cli", "core", "driver", "examples", "orchestration", "pipelines", "plugins", "spindle", "tests")


def list_modules(root: Path = ROOT) -> list[Path]:
    return sorted(path.relative_to(root) for folder in FOLDERS for path in (root / folder).rglob("*.py"))


def find_importers(root: Path = ROOT) -> Mapping[Path, set[Path]]:
    """Return for each file those that import it, also inside functions and for types alone."""
    files = set(list_modules(root))
    importers: dict[Path, set[Path]] = defaultdict(set)
    for file in files:
        for module in _list_imports((root / file).read_text("utf-8")):
            path = Path(*module.split("."))
            for imported in (path.with_suffix(".py"), path / "__init__.py"):
                if imported in files and imported != file:
                    importers[imported].add(file)
    return importers


def _list_imports(text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def list_affected(changed: Iterable[Path], importers: Mapping[Path, set[Path]]) -> list[Path]:
    """List what imports the changed files, directly or through others, and the files themselves, the nearest first."""
    found = dict.fromkeys(sorted(changed))
    waiting = deque(found)
    while waiting:
        for importer in sorted(importers.get(waiting.popleft(), ())):
            if importer not in found:
                found[importer] = None
                waiting.append(importer)
    return list(found)
