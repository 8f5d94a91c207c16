"""A plugin of pytest that writes what each test cost: wall-clock and CPU seconds, those of its processes included."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path

import pytest
from pluggy import Result

TICKS = os.sysconf("SC_CLK_TCK")
CPU = "cpu_seconds"
NO_TIME = "no time was left for it"  # the reason of a skip
NOT_STARTED = "not started"
COLUMNS = ("cpu", "wall", "outcome", "test")


def measure_cpu() -> float:
    """Return the CPU seconds of this process, of its descendants that run, and of those that were waited for.

    The list of children that Linux keeps of a task leaves out some while others end, so all processes are read.
    """
    if not Path("/proc/self/stat").exists():  # macOS
        return sum(os.times()[:4])
    children: dict[int, list[int]] = defaultdict(list)
    seconds: dict[int, float] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                fields = Path("/proc", name, "stat").read_text().rpartition(") ")[2].split()
            except OSError:  # it has ended meanwhile
                continue
            children[int(fields[1])].append(int(name))
            seconds[int(name)] = sum(map(int, fields[11:15])) / TICKS  # proc(5): utime, stime, cutime, cstime
    family = [os.getpid()]
    for pid in family:
        family += children[pid]
    return sum(seconds[pid] for pid in family)


class Meter:
    """In a worker: adds the CPU seconds since the end of the test before to the report of each test's teardown."""

    def __init__(self) -> None:
        self._before = measure_cpu()

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, call: pytest.CallInfo[None]) -> Generator[None, Result[pytest.TestReport]]:
        outcome = yield
        if call.when == "teardown":
            now = measure_cpu()
            # a descendant that somebody else waited for takes its seconds with it
            outcome.get_result().user_properties.append((CPU, max(0.0, now - self._before)))
            self._before = now


class Ledger:
    """In the controller: writes a line for each test as it ends, of the columns COLUMNS, separated by tabs."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("w", buffering=1)
        print(*COLUMNS, sep="\t", file=self._file)
        self._seconds: dict[str, float] = {}
        self._outcomes: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        test = report.nodeid
        self._seconds[test] = self._seconds.get(test, 0.0) + report.duration
        if report.outcome != "passed":
            is_late = report.skipped and NO_TIME in str(report.longrepr)
            self._outcomes[test] = NOT_STARTED if is_late else report.outcome
        if report.when not in ("setup", "call"):  # the teardown, or the word of pytest-xdist that the worker died
            cpu = dict(report.user_properties).get(CPU, 0.0)
            wall, outcome = self._seconds.pop(test), self._outcomes.pop(test, "passed")
            print(f"{cpu:.2f}\t{wall:.2f}\t{outcome}\t{test}", file=self._file)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Count a file that cannot be imported as a failed test: the others run all the same."""
        if report.failed:
            print(f"0.00\t0.00\tfailed\t{report.nodeid}", file=self._file)

    def pytest_sessionfinish(self) -> None:
        self._file.close()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--measured", type=Path, help="the file that is written")


def pytest_configure(config: pytest.Config) -> None:
    is_worker = hasattr(config, "workerinput")
    if is_worker or not config.getoption("numprocesses", None):
        config.pluginmanager.register(Meter(), "meter")
    path = config.getoption("--measured")
    if path and not is_worker:
        config.pluginmanager.register(Ledger(path), "ledger of costs")
