"""Run the linters beside the tests, the tests that failed again alone, and write what all of it cost.

`bin/test` calls it; see tests/README.md for what each kind of run has.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil

from tests.gate import choice
from tests.gate.choice import TestChoice, write_choice
from tests.gate.costs import ROOT, sum_by_file, write_costs
from tests.gate.measurement import NOT_STARTED
from tests.gate.records import (
    PARTS,
    PROVEN,
    SHOWN_TESTS,
    GateRun,
    Measured,
    count_commits_since,
    find_head,
    get_day,
    join_parts,
    list_changed,
    read_measured,
    read_parts,
)

REPORT = ROOT / ".ci/report"
LINTERS = ("ruff check --quiet", "ruff format --check --quiet", "pyright", "lint-imports --no-cache")
WORKERS = 3  # on two cores: many tests wait for other processes
MOST_COMMITS = 300
MOST_FAILURES = 5  # more have a common cause, which no repetition mends
REPEATS = 3
ENDPOINTS = {
    "SPINDLE_TEST_S3_ENDPOINT": "S3",
    "SPINDLE_TEST_TRINO": "Trino",
    "SPINDLE_TEST_JARS": "Java libraries",
    "SPINDLE_TEST_MODEL_URL": "a model",
    "SPINDLE_TEST_IMAGE": "Kubernetes",
    "SPINDLE_TEST_DEX": "Dex",
}


@dataclass(frozen=True)
class GateArguments:
    kind: str
    part: int
    parts: int
    deadline: float | None


def main() -> int:
    arguments = _parse()
    # a background job of a shell ignores it, and so would all that tests start
    signal.signal(signal.SIGINT, signal.default_int_handler)
    run = GateRun(find_head(), without=[name for key, name in ENDPOINTS.items() if key not in os.environ])
    try:
        chosen = _choose(arguments)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    with TemporaryDirectory() as folder:
        linters = _Linters(Path(folder))
        tests, status = _run_tests(run, chosen, Path(folder), arguments.deadline)
        complaints = linters.wait()
    if status:
        run.failed.append(f"pytest, which ended with status {status}")
    run.failed += complaints
    _write_report(run, tests)
    if arguments.kind == "all":
        _record_whole(run, arguments)
    skipped = sum(count for outcome, count in run.counts.items() if outcome not in ("passed", "failed"))
    passed = run.counts.get("passed", 0) + len(run.flaky)
    print(f"\n{passed} passed, {len(run.failed)} failed, {skipped} skipped")
    return 1 if run.failed else 0


def _parse() -> GateArguments:
    parser = argparse.ArgumentParser(prog="bin/test")
    kinds = parser.add_mutually_exclusive_group()
    for kind in ("changed", "merge", "all"):
        kinds.add_argument(f"--{kind}", dest="kind", action="store_const", const=kind, default="default")
    parser.add_argument("--part", default="1/1", help="K/N, one of N parts of --all")
    parser.add_argument("--deadline", type=float)
    given = parser.parse_args()
    part, _, parts = given.part.partition("/")
    if not (part.isdigit() and parts.isdigit() and 1 <= int(part) <= int(parts)):
        parser.error(f"--part {given.part}: K/N, such as 2/4")
    return GateArguments(given.kind, int(part), int(parts), given.deadline)


def _choose(arguments: GateArguments) -> TestChoice:
    """Return the tests to run; raise ValueError with a sentence where the last whole run is too old."""
    if arguments.kind == "default":
        return choice.DEFAULT
    if arguments.kind == "all":
        return choice.choose_part(read_parts(arguments.parts), arguments.part, arguments.parts)
    if arguments.kind == "changed":
        changed = list_changed("HEAD") or list_changed("HEAD~1")
        chosen, left_out = choice.choose_changed(changed)
        if left_out:
            print(f"Left out, beyond two minutes: {len(left_out)} files, such as {left_out[0]}.")
        return chosen
    proven = _find_proven()
    return choice.choose_before_merge(list_changed(proven), get_day()) if proven else choice.NO_VARIANTS


def _find_proven() -> str | None:
    """Return the commit of the last whole run, of which the age is printed; raise ValueError where it is too old."""
    if not PROVEN.exists():
        print("There is no .ci/proven of a whole run: all long tests run.", flush=True)
        return None
    proven = GateRun.read(PROVEN)
    try:
        age = count_commits_since(proven.commit)
    except subprocess.CalledProcessError:
        raise ValueError("The commit of .ci/proven is not in this clone. Run bin/test --all.") from None
    print(f"All tests were run last on {proven.day}, {age} commits ago.", flush=True)
    if age > MOST_COMMITS:
        raise ValueError(f"That is more than {MOST_COMMITS} commits ago. Run bin/test --all, and commit .ci/proven.")
    return proven.commit


class _Linters:
    """The linters, run beside the tests."""

    def __init__(self, folder: Path) -> None:
        self._outputs = [folder / f"{number}.linter" for number in range(len(LINTERS))]
        self._processes = []
        for command, output in zip(LINTERS, self._outputs, strict=True):
            with output.open("w") as file:
                process = subprocess.Popen(command.split(), cwd=ROOT, stdout=file, stderr=subprocess.STDOUT)
                self._processes.append(process)

    def wait(self) -> list[str]:
        """Print what the linters found; return the commands of those that found something, or did not end."""
        refused: list[str] = []
        for command, process, output in zip(LINTERS, self._processes, self._outputs, strict=True):
            if status := process.wait():
                print(output.read_text(), end="")
                refused.append(f"{command}, which ended with status {status}")
        return refused


def _run_tests(run: GateRun, chosen: TestChoice, folder: Path, deadline: float | None) -> tuple[list[Measured], int]:
    """Run the chosen tests, and those that fail alone; return what each cost, and pytest's status but for failures."""
    started, before, idle = time.monotonic(), os.times(), psutil.cpu_times()
    measured = folder / "measured"
    write_choice(chosen, folder / "choice")
    # with a space instead of the sign, pytest would take the path for one of tests
    options = [f"--choice={folder / 'choice'}", f"--measured={measured}", "--dist=loadfile", "--no-loadscope-reorder"]
    options += [f"--deadline={deadline}"] if deadline else []
    if chosen == choice.NOTHING or chosen.tests == []:
        print("No test is chosen.")
        return [], 0
    status = _run_pytest([*options, f"-n{WORKERS}"])
    tests = read_measured(measured) if measured.exists() else []
    run.failed = [*dict.fromkeys(each.test for each in tests if each.outcome == "failed")]
    if status == 1 and run.failed and len(run.failed) <= MOST_FAILURES:
        _repeat(run, folder, is_whole=chosen.variants != [])
    after, rest = os.times(), psutil.cpu_times()
    run.minutes = (time.monotonic() - started) / 60
    run.cpu_seconds = after.children_user + after.children_system - before.children_user - before.children_system
    spent = sum(rest[:8]) - sum(idle[:8])
    run.busy = 1 - (rest.idle + rest.iowait - idle.idle - idle.iowait) / spent if spent else 0
    run.costs = sum_by_file((each.test, each.cpu) for each in tests)
    run.counts = dict(Counter(each.outcome for each in tests))
    is_explained = status == 0 or (status == 1 and (run.failed or run.flaky))
    return tests, 0 if is_explained else status


def _repeat(run: GateRun, folder: Path, is_whole: bool) -> None:
    """Accept a failed test that passes three times alone, and name it; a whole run accepts none a second time."""
    print(f"\nThese failed beside others, and run {REPEATS} times alone:", *run.failed, "", sep="\n", flush=True)
    known = set(GateRun.read(PROVEN).flaky) if PROVEN.exists() else set[str]()
    for test in [*run.failed]:
        if test in known:
            print(f"{test} failed and passed again in the last whole run too: that is a defect to mend.", flush=True)
        if not (test in known and is_whole) and all(_passes_alone(test, folder) for _ in range(REPEATS)):
            run.failed.remove(test)
            run.flaky.append(test)


def _passes_alone(test: str, folder: Path) -> bool:
    """Run a test alone, and return whether it passes; a skip proves nothing."""
    measured = folder / "alone"
    status = _run_pytest([test, f"--measured={measured}"], "-q")
    return status == 0 and [each.outcome for each in read_measured(measured)] == ["passed"]


def _run_pytest(options: Sequence[str], *more: str) -> int:
    plugins = ("-p", "tests.gate.measurement", "-p", "tests.gate.choice", "-p", "no:cacheprovider")
    command = [sys.executable, "-m", "pytest", *plugins, "-m", "", *more, *options]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


def _write_report(run: GateRun, tests: Sequence[Measured]) -> None:
    """Write `.ci/report`, of which the head is printed: the run, then each test, the dearest first."""
    head = [*run.format().splitlines(), "", "CPU s  wall s  outcome  test"]
    rows = [f"{each.cpu:5.1f}  {each.wall:6.1f}  {each.outcome:<7}  {each.test}" for each in tests]
    with suppress(OSError):  # the clone is another user's
        REPORT.write_text("\n".join([*head, *rows]) + "\n")
    print("", *head, *rows[:SHOWN_TESTS], f"(all in {REPORT.relative_to(ROOT)})", sep="\n", flush=True)


def _record_whole(run: GateRun, arguments: GateArguments) -> None:
    """Write `.ci/proven` and `.ci/costs` when all parts are there; a whole with failures proves nothing."""
    if earlier := read_parts(arguments.parts).get(arguments.part):
        earlier.take_repetition(run)
        run = earlier
    run.write_part(arguments.part, arguments.parts)
    runs = read_parts(arguments.parts)
    if len(runs) < arguments.parts:
        print(f"\nPart {arguments.part} of {arguments.parts} is in {PARTS.relative_to(ROOT)}: commit it.")
        return
    whole = join_parts(runs.values())
    write_costs(whole.costs)
    whole.failed += [f"{file}, which was in no part" for file in choice.list_test_files() if file not in whole.costs]
    if count := whole.counts.get(NOT_STARTED):
        whole.failed.append(f"{count} tests that were not started")
    if whole.failed:
        print("Not proven:", *whole.failed, sep="\n")
        return
    PROVEN.write_text(whole.format())
    shutil.rmtree(PARTS)
    print("\nProven. Commit .ci/proven and .ci/costs.")


if __name__ == "__main__":
    sys.exit(main())
