"""What runs of the tests leave: the report of one run, the parts of a whole one, and `.ci/proven`."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Collection
from dataclasses import asdict, dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Self

from tests.gate.costs import ROOT

PROVEN = ROOT / ".ci/proven"
PARTS = ROOT / ".ci/parts"
SHOWN_TESTS = 25


@dataclass(frozen=True)
class Measured:
    """A test of a run: CPU and wall-clock seconds, passed, failed or skipped, and its name."""

    cpu: float
    wall: float
    outcome: str
    test: str


def read_measured(path: Path) -> list[Measured]:
    """Read the lines of tests/gate/measurement.py, the dearest first."""
    lines = [line.split("\t", 3) for line in path.read_text().splitlines()[1:]]
    found = [Measured(float(cpu), float(wall), outcome, test) for cpu, wall, outcome, test in lines]
    return sorted(found, key=lambda each: -each.cpu)


@dataclass
class GateRun:
    """One run of tests: what it cost, what it found, and which tests failed and passed again."""

    commit: str
    minutes: float = 0
    cpu_seconds: float = 0
    busy: float = 0  # share of the machine's cores, of whatever process
    counts: dict[str, int] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    flaky: list[str] = field(default_factory=list)
    without: list[str] = field(default_factory=list)
    costs: dict[str, float] = field(default_factory=dict)  # CPU seconds of each test file
    day: str = field(default_factory=lambda: datetime.now(UTC).date().isoformat())

    def format(self) -> str:
        """Return the lines that a person reads, and that `.ci/proven` has; `read` takes them apart."""
        lines = {
            "commit": self.commit,
            "date": self.day,
            "minutes": f"{self.minutes:.1f}",
            "CPU seconds": f"{self.cpu_seconds:.0f}",
            "busy": f"{self.busy:.2f} of the machine",
            "tests": ", ".join(f"{count} {outcome}" for outcome, count in sorted(self.counts.items())),
            "without": ", ".join(self.without) or "nothing",
        }
        text = [f"{name}: {value}" for name, value in lines.items()]
        text += [f"failed: {test}" for test in self.failed]
        return "\n".join([*text, *(f"failed and passed three times alone: {test}" for test in self.flaky)]) + "\n"

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read the commit, the date and the tests that failed and passed again of a formatted run."""
        lines = [line.partition(": ")[::2] for line in path.read_text().splitlines()]
        flaky = [value for name, value in lines if name == "failed and passed three times alone"]
        values = dict(lines)
        return cls(values["commit"], flaky=flaky, day=values["date"])

    def take_repetition(self, again: GateRun) -> None:
        """Take the outcomes of the tests that failed from a later run of these alone."""
        self.minutes += again.minutes
        self.cpu_seconds += again.cpu_seconds
        self.counts = dict(Counter(self.counts) - Counter(failed=self.counts.get("failed", 0)) + Counter(again.counts))
        self.failed = again.failed
        self.flaky += again.flaky

    def write_part(self, number: int, parts: int) -> None:
        PARTS.mkdir(exist_ok=True)
        (PARTS / f"{number}-of-{parts}.json").write_text(json.dumps(asdict(self), indent=1) + "\n")


def read_parts(parts: int) -> dict[int, GateRun]:
    """Return the parts of a whole that have been run, by their numbers."""
    files = {number: PARTS / f"{number}-of-{parts}.json" for number in range(1, parts + 1)}
    return {number: GateRun(**json.loads(file.read_text())) for number, file in files.items() if file.exists()}


def join_parts(runs: Collection[GateRun]) -> GateRun:
    """Join the runs of all parts into one whole, of the oldest of their commits."""
    return GateRun(
        commit=max((run.commit for run in runs), key=count_commits_since),
        minutes=sum(run.minutes for run in runs),
        cpu_seconds=sum(run.cpu_seconds for run in runs),
        busy=sum(run.busy * run.minutes for run in runs) / sum(run.minutes for run in runs),
        counts=dict(sum((Counter(run.counts) for run in runs), Counter[str]())),
        failed=[test for run in runs for test in run.failed],
        flaky=[test for run in runs for test in run.flaky],
        without=sorted({name for run in runs for name in run.without}),
        costs={path: seconds for run in runs for path, seconds in run.costs.items()},
    )


def find_head() -> str:
    """Return the commit of this clone; a copy without git, or one of another user, has none."""
    try:
        return run_git("rev-parse", "HEAD")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def count_commits_since(commit: str) -> int:
    return int(run_git("rev-list", "--count", f"{commit}..HEAD"))


def list_changed(commit: str) -> list[Path]:
    """List the files of the clone that differ from a commit, those that git does not track yet included."""
    changed = run_git("diff", "--name-only", "--no-renames", commit).split()
    return [Path(name) for name in [*changed, *run_git("ls-files", "--others", "--exclude-standard").split()]]


def run_git(*arguments: str) -> str:
    """Run git in this clone; raise CalledProcessError where it fails, as for a commit that is not there."""
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def get_day() -> date:
    return datetime.now(UTC).date()
