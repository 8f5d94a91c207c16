"""The rooms of the code: no packages or modules of one folder import each other in a circle."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = ("api", "cli", "core", "driver", "orchestration", "pipelines", "plugins", "spindle")


def list_imports(path: Path) -> Iterator[tuple[str, ...]]:
    """List the modules and names that a file imports, also inside functions and for types alone."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (tuple(alias.name.split(".")) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from ((*node.module.split("."), alias.name) for alias in node.names)


def list_siblings(room: str) -> dict[tuple[str, ...], dict[str, set[str]]]:
    """Return for each folder of a room its packages and modules with those beside them that they import."""
    folders: dict[tuple[str, ...], dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    files = sorted((ROOT / room).rglob("*.py"))
    modules = {file.relative_to(ROOT).with_suffix("").parts for file in files}
    packages = {module[:depth] for module in modules for depth in range(1, len(module))}
    for file in files:
        module = file.relative_to(ROOT).with_suffix("").parts
        for imported in list_imports(file):
            depth = next((i for i, (a, b) in enumerate(zip(module, imported, strict=False)) if a != b), 0)
            target = imported[: depth + 1]
            if depth and module[depth] != "__init__" and (target in modules or target in packages):
                folders[module[:depth]][module[depth]].add(imported[depth])
    return folders


@pytest.mark.parametrize("room", ROOMS)
def test_no_folder_has_a_circle(room: str) -> None:
    circles = dict[str, list[str]]()
    for folder, arrows in list_siblings(room).items():
        try:
            TopologicalSorter(arrows).prepare()
        except CycleError as error:
            circles["/".join(folder)] = error.args[1]
    assert circles == {}
