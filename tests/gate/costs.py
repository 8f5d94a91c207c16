"""What the tests of each file cost in the last whole run: `.ci/costs`, a line for each file, CPU seconds and path."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
COSTS = ROOT / ".ci/costs"
UNKNOWN_SECONDS = 5.0  # of a file that no whole run has met yet


@cache
def read_costs() -> Mapping[str, float]:
    """Return the CPU seconds of each test file by its path in the clone."""
    lines = COSTS.read_text().splitlines() if COSTS.exists() else []
    return {path: float(seconds) for seconds, path in (line.split(" ", 1) for line in lines)}


def get_cost(path: str) -> float:
    return read_costs().get(path, UNKNOWN_SECONDS)


def sum_by_file(seconds_of_tests: Iterable[tuple[str, float]]) -> dict[str, float]:
    files: dict[str, float] = defaultdict(float)
    for test, seconds in seconds_of_tests:
        files[test.partition("::")[0]] += seconds
    return dict(files)


def write_costs(costs: Mapping[str, float]) -> None:
    """Write the file, the dearest first; a test file that has not run keeps what it had."""
    known = {path: seconds for path, seconds in {**read_costs(), **costs}.items() if (ROOT / path).exists()}
    lines = [f"{seconds:.1f} {path}" for path, seconds in sorted(known.items(), key=lambda item: (-item[1], item[0]))]
    COSTS.write_text("\n".join(lines) + "\n")


def split_evenly(costs: Mapping[str, float], parts: int) -> list[list[str]]:
    """Split names into parts of about equal cost: the dearest first, each into the cheapest part so far."""
    found: list[list[str]] = [[] for _ in range(parts)]
    sums = [0.0] * parts
    for name in sorted(costs, key=lambda name: (-costs[name], name)):
        cheapest = sums.index(min(sums))
        found[cheapest].append(name)
        sums[cheapest] += costs[name]
    return found
