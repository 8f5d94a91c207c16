"""A run of the gate on a clone of its own: repeats, ledger, parts, deadline, and what a change chooses."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.gate.costs import ROOT

Gate = Callable[..., subprocess.CompletedProcess[str]]
LINTER = "#!/bin/sh\nexit 0\n"
LONG = "import pytest\n\n@pytest.mark.long\ndef test_{0}_long(): pass\n\ndef test_{0}(): pass\n"
VARIANT = "\n@pytest.mark.variant\ndef test_{0}_variant(): pass\n"
KEPT = "\n@pytest.mark.long\n@pytest.mark.gate\ndef test_{0}_kept(): pass\n"
FAILS_ONCE = """
from pathlib import Path

def test_fails_beside_others():
    seen = Path(__file__).with_name("seen")
    first = not seen.exists()
    seen.touch()
    assert not first
"""
PYTEST = """[pytest]
testpaths = tests
addopts = -m "not long and not variant" --import-mode=importlib
markers =
    long: long
    variant: variant
    gate: gate
"""


class Clone:
    """A repository with the gate and tests of its own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        shutil.copytree(ROOT / "tests/gate", root / "tests/gate", ignore=shutil.ignore_patterns("test_*", "__py*"))
        main = root / "tests/gate/__main__.py"
        main.write_text(main.read_text().replace("WORKERS = 3", "WORKERS = 1"))
        (root / ".ci").mkdir()
        (root / "bin").mkdir()
        for linter in ("ruff", "pyright", "lint-imports"):
            (root / "bin" / linter).write_text(LINTER)
            (root / "bin" / linter).chmod(0o755)
        self.write("pytest.ini", PYTEST)
        self.write(".gitignore", ".ci/report\n__pycache__/\nseen\n")
        self.git("init", "-q")

    def write(self, path: str, text: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def git(self, *arguments: str) -> None:
        identity = ("-c", "user.name=test", "-c", "user.email=test@example.org")
        subprocess.run(["git", *identity, *arguments], cwd=self.root, check=True, capture_output=True)

    def commit(self) -> None:
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", "Change")

    def run(self, *arguments: str) -> tuple[int, str]:
        """Return the exit code of the gate, and what it printed."""
        path = {"PATH": f"{self.root / 'bin'}:/usr/bin:/bin"}
        done = subprocess.run(
            [sys.executable, "-m", "tests.gate", *arguments], cwd=self.root, env=path, capture_output=True, text=True
        )
        return done.returncode, done.stdout + done.stderr

    def list_outcomes(self) -> dict[str, str]:
        """Return the outcome of each test of the last report, by its name."""
        rows = (self.root / ".ci/report").read_text().partition("outcome  test\n")[2].splitlines()
        return {row.rpartition("::")[2]: row.split()[2] for row in rows}


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    return Clone(tmp_path)


def test_a_failure_that_passes_three_times_alone_is_accepted_and_named(clone: Clone) -> None:
    clone.write("tests/test_a.py", FAILS_ONCE)
    clone.commit()
    status, printed = clone.run()
    assert status == 0, printed
    assert "failed and passed three times alone: tests/test_a.py::test_fails_beside_others" in printed
    assert printed.endswith("1 passed, 0 failed, 0 skipped\n")


def test_a_failure_that_is_repeated_and_complaints_of_linters_refuse(clone: Clone) -> None:
    clone.write("tests/test_a.py", "def test_a(): assert 0\n\ndef test_b(): pass\n")
    clone.commit()
    status, printed = clone.run()
    assert (status, "1 passed, 1 failed, 0 skipped" in printed) == (1, True)
    clone.write("tests/test_a.py", "def test_b(): pass\n")
    clone.write("bin/pyright", "#!/bin/sh\necho 'a.py:1 is wrong'\nexit 1\n")
    status, printed = clone.run()
    assert (status, "a.py:1 is wrong" in printed) == (1, True)


def test_a_file_that_cannot_be_imported_refuses(clone: Clone) -> None:
    clone.write("tests/test_a.py", "import nothing_of_this_name\n")
    clone.write("tests/test_b.py", FAILS_ONCE)
    clone.commit()
    status, printed = clone.run("--all")
    assert (status, "failed: tests/test_a.py" in printed) == (1, True)
    assert not (clone.root / ".ci/proven").exists()


def test_a_linter_that_dies_without_a_word_refuses(clone: Clone) -> None:
    clone.write("tests/test_a.py", "def test_a(): pass\n")
    clone.write("bin/pyright", "#!/bin/sh\nkill -9 $$\n")
    clone.commit()
    status, printed = clone.run()
    assert (status, "pyright, which ended with status -9" in printed) == (1, True)


def test_the_parts_of_a_whole_run_prove_the_oldest_commit(clone: Clone) -> None:
    for name in "ab":
        clone.write(f"tests/test_{name}.py", (LONG + VARIANT).format(name))
    clone.commit()
    assert clone.run("--all", "--part", "1/2")[0] == 0
    first = clone.list_outcomes()
    assert not (clone.root / ".ci/proven").exists()
    oldest = subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=clone.root, text=True).strip()
    clone.commit()
    assert clone.run("--all", "--part", "2/2")[0] == 0
    assert first.keys() | clone.list_outcomes().keys() == {
        f"test_{name}{kind}" for name in "ab" for kind in ("", "_long", "_variant")
    }
    proven = (clone.root / ".ci/proven").read_text()
    assert (f"commit: {oldest}" in proven, "tests: 6 passed" in proven) == (True, True)
    assert "tests/test_a.py" in (clone.root / ".ci/costs").read_text()


def test_a_part_that_failed_is_mended_by_the_tests_that_failed(clone: Clone) -> None:
    clone.write("tests/test_a.py", "def test_a(): assert 0\n\ndef test_b(): pass\n")
    clone.write("tests/test_c.py", "def test_c(): pass\n")
    clone.commit()
    assert clone.run("--all", "--part", "1/2")[0] == 1
    clone.write("tests/test_a.py", "def test_a(): pass\n\ndef test_b(): pass\n")
    clone.commit()
    assert clone.run("--all", "--part", "1/2")[0] == 0
    assert clone.list_outcomes() == {"test_a": "passed"}
    clone.write("tests/test_new.py", "def test_new(): pass\n")
    assert clone.run("--all", "--part", "2/2")[0] == 0
    assert clone.list_outcomes() == {"test_c": "passed", "test_new": "passed"}
    assert "tests: 4 passed" in (clone.root / ".ci/proven").read_text()


def test_a_merge_needs_a_whole_run_and_tests_what_has_changed_since(clone: Clone) -> None:
    names = ("a", "b", "c", "d", "e", "f", "g", "h")
    for name in names:
        clone.write(f"tests/core/{name}/test_it.py", (LONG + VARIANT).format(name))
    clone.write("tests/core/test_kept.py", KEPT.replace("\n", "import pytest\n", 1).format("it"))
    clone.write("core/a/stages.py", "")
    clone.commit()
    clone.run("--merge")
    assert {f"test_{name}_long" for name in names} <= clone.list_outcomes().keys()
    clone.run("--all")
    clone.write("core/a/stages.py", "changed = 1\n")
    clone.commit()
    status, printed = clone.run("--merge")
    assert (status, "1 commits ago" in printed) == (0, True)
    outcomes = clone.list_outcomes()
    assert {f"test_{name}" for name in names} | {"test_a_long", "test_it_kept"} <= outcomes.keys()
    assert not {name for name in outcomes if name.endswith("_variant")}
    long = [name for name in outcomes if name.endswith("_long")]
    assert len(long) < len(names)  # a quarter of the others has its turn


def test_after_the_deadline_no_test_is_started_and_none_has_failed(clone: Clone) -> None:
    clone.write("tests/test_a.py", "def test_a(): assert 0\n")
    clone.commit()
    status, printed = clone.run("--deadline", str(time.time() - 1))
    assert (status, "1 not started" in printed) == (0, True)


def test_a_change_runs_the_default_tests_that_import_it_and_no_arguments_all_of_them(clone: Clone) -> None:
    clone.write("core/__init__.py", "")
    clone.write("core/rows.py", "")
    clone.write("core/tables.py", "def read():\n    from core.rows import x\n")
    clone.write("core/others.py", "")
    clone.write("tests/test_tables.py", "import core.tables\n" + LONG.format("tables"))
    clone.write("tests/test_others.py", "import core.others\n" + (LONG + KEPT).format("others"))
    clone.commit()
    clone.write("core/rows.py", "x = 1\n")
    status, printed = clone.run("--changed")
    assert status == 0, printed
    assert clone.list_outcomes() == {"test_tables": "passed"}
    assert clone.run()[0] == 0
    assert clone.list_outcomes() == {"test_tables": "passed", "test_others": "passed"}
