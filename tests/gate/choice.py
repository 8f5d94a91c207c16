"""Which tests run: a plugin of pytest that leaves out what a choice does not name, and the choices themselves."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from zlib import crc32

import pytest

from tests.gate.costs import ROOT, get_cost, split_evenly
from tests.gate.imports import find_importers, list_affected
from tests.gate.measurement import NO_TIME
from tests.gate.records import GateRun

TURNS = 4
CHANGED_CPU_SECONDS = 150  # about two minutes with the linters beside them


@dataclass(frozen=True)
class TestChoice:
    """Test files by path: those whose default tests run, whose gate, long and variant ones; None is all of them."""

    __test__ = False  # no class of tests

    default: list[str] | None
    gate: list[str] | None
    long: list[str] | None
    variants: list[str] | None
    tests: list[str] | None = None  # these alone, by name, or all of these files

    def includes(self, item: pytest.Item) -> bool:
        path = item.path.relative_to(ROOT).as_posix()
        if self.tests is not None:
            return item.nodeid in self.tests or path in self.tests
        if item.get_closest_marker("variant"):
            return self.variants is None or path in self.variants
        if item.get_closest_marker("gate"):
            return self.gate is None or path in self.gate
        if item.get_closest_marker("long"):
            return self.long is None or path in self.long
        return self.default is None or path in self.default


DEFAULT = TestChoice(default=None, gate=[], long=[], variants=[])
NOTHING = TestChoice(default=[], gate=[], long=[], variants=[])
NO_VARIANTS = TestChoice(default=None, gate=None, long=None, variants=[])


def choose_before_merge(changed: Iterable[Path], day: date) -> TestChoice:
    """Choose default and gate tests, all long ones of edited files and rooms, and of the rest those in turn."""
    files = list_test_files()
    rooms = {room for path in changed if (room := find_room(path))}
    edited = {file for file in files if any(_is_in(file, room) for room in rooms)}
    turn = day.toordinal() % TURNS
    long = [file for file in files if file in edited or crc32(file.encode()) % TURNS == turn]
    return TestChoice(default=None, gate=None, long=long, variants=[])


def choose_part(earlier: Mapping[int, GateRun], number: int, parts: int) -> TestChoice:
    """Choose a share of the files that no earlier part had; of a part that failed, the tests that failed."""
    if number in earlier:
        return TestChoice(
            None, None, None, None, tests=[test for test in earlier[number].failed if test.startswith("tests/")]
        )
    taken = {path for run in earlier.values() for path in run.costs}
    left = {file: get_cost(file) for file in list_test_files() if file not in taken}
    chosen = split_evenly(left, parts - len(earlier))[0]
    return TestChoice(chosen, chosen, chosen, chosen)


def choose_changed(changed: Iterable[Path]) -> tuple[TestChoice, list[str]]:
    """Choose the default tests that a change can break, the nearest first, and return also the files left out."""
    changed = set(changed)
    tests = set(list_test_files())
    mirrored = [file for file in tests if any(_is_in(file, room) for path in changed if (room := find_room(path)))]
    imported = [path.as_posix() for path in list_affected(changed, find_importers())]
    chosen, left_out, seconds = list[str](), list[str](), 0.0
    for file in dict.fromkeys([*(file for file in imported[: len(changed)]), *sorted(mirrored), *imported]):
        if file not in tests:
            continue
        seconds += get_cost(file)
        (chosen if seconds <= CHANGED_CPU_SECONDS or not chosen else left_out).append(file)
    return TestChoice(chosen, gate=[], long=[], variants=[]), left_out


def list_test_files() -> list[str]:
    return sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("test_*.py"))


def find_room(path: Path) -> str | None:
    """Return the test file or folder of an edited file: itself, its twin, or the folder that mirrors its own."""
    if path.parts[0] == "tests":
        return path.as_posix() if path.name.startswith("test_") else None
    folder = Path("tests", *path.parts[:-1])
    twin = folder / f"test_{path.stem}.py"
    room = twin if (ROOT / twin).exists() else folder
    return room.as_posix() if room != Path("tests") and (ROOT / room).exists() else None


def _is_in(file: str, room: str) -> bool:
    return file == room or Path(file).parent.as_posix() == room


def write_choice(choice: TestChoice, path: Path) -> None:
    path.write_text(json.dumps(asdict(choice)))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--choice", type=Path, help="a file with the choice of tests that run")
    parser.addoption("--deadline", type=float, help="when tests stop being started, in seconds since the epoch")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    path: Path | None = config.getoption("--choice")
    if path is None:
        return
    choice = TestChoice(**json.loads(path.read_text()))
    left_out = [item for item in items if not choice.includes(item)]
    items[:] = [item for item in items if choice.includes(item)]
    config.hook.pytest_deselected(items=left_out)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    deadline: float | None = item.config.getoption("--deadline")
    if deadline is not None and time.time() > deadline:
        pytest.skip(NO_TIME)
