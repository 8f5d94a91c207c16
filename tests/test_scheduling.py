from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.conftest import TESTS

CONFTEST = """
from tests.support.scheduling import ScopeScheduling

def pytest_xdist_make_scheduler(config, log):
    return ScopeScheduling(config, lambda file: file.name, log)
"""
SHARES = """
import pathlib
import pytest
from tests.support.scheduling import end_fixtures

LOG = pathlib.Path(__file__).with_name("log")

def log(word):
    LOG.open("a").write(word + " ")

@pytest.fixture(scope="session")
def shared():
    log("start")
    yield
    log("stop")

@pytest.fixture(scope="session")
def made_of_it(shared):
    yield
    log("made-of-it-ends")

@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item, nextitem):
    yield
    if nextitem and nextitem.path != item.path:
        end_fixtures(item, ["shared"])
"""
PASSES = "def test_{}(): pass\n"
KILLS = "def test_kills_its_worker():\n    import os\n    os._exit(1)\n"


def run_tests(folder: Path, files: dict[str, str], workers: int) -> str:
    for name, text in {"conftest.py": CONFTEST, "pytest.ini": "[pytest]\n", **files}.items():
        (folder / name).write_text(text)
    command = [sys.executable, "-m", "pytest", f"-n{workers}", "--dist=loadfile", "-q", "-p", "no:cacheprovider"]
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(TESTS.parent)}
    run = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False)
    return run.stdout


def test_a_worker_that_dies_loses_only_the_test_that_it_ran(tmp_path: Path) -> None:
    quick = {f"test_{each}.py": PASSES.format("a") + PASSES.format("b") for each in range(6)}
    dying = {f"test_last_{each}.py": PASSES.format("before") + KILLS + PASSES.format("after") for each in range(2)}
    assert "2 failed, 16 passed" in run_tests(tmp_path, {**quick, **dying}, workers=2)


def test_the_last_test_of_a_dead_worker_ends_the_run(tmp_path: Path) -> None:
    assert "1 failed, 1 passed" in run_tests(tmp_path, {"test_a.py": KILLS + PASSES.format("after")}, workers=1)


def test_a_file_of_one_test_follows_a_dead_worker(tmp_path: Path) -> None:
    files = {"test_a.py": PASSES.format("a"), "test_b.py": KILLS, "test_c.py": PASSES.format("c")}
    assert "1 failed, 2 passed" in run_tests(tmp_path, files, workers=1)


def test_what_a_file_shares_ends_with_it_and_begins_anew(tmp_path: Path) -> None:
    uses = "from conftest import log\ndef test_{0}(made_of_it): log('{0}')\ndef test_{0}2(shared): log('{0}2')\n"
    files = {f"test_{each}.py": uses.format(each) for each in "ab"}
    files["test_c.py"] = "from conftest import log\ndef test_c(): log('c')\n"
    assert "5 passed" in run_tests(tmp_path, {**files, "conftest.py": CONFTEST + SHARES}, workers=1)
    used = "start {0} {0}2 made-of-it-ends stop"
    assert (tmp_path / "log").read_text().split() == f"{used.format('a')} {used.format('b')} c".split()
