"""A driver's start with three uploaded plugins against none: `python -m bench.plugin_start [ROUNDS]`.

From the new process to its end, for a pipeline of one row without Spark; the plugins are installed before. Contenders
take turns, and the median of the differences within a round counts; CPU says more where others use the machine.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from bench.service import describe_machine
from pipelines.contract.request import OutputSpec, RunRequest
from pipelines.environments.folders import EnvironmentStore
from tests.support.wheels import build_wheel

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 15
ROOT = Path(__file__).parents[1]
PLUGINS = 3
STAGE = """
from spindle import Columns, Plugin, RowStage, register_stage

plugin = Plugin(description="A tag.")


@register_stage("acme{number}")
class Tag(RowStage):
    positional = ("tag",)
    tag: str = "new"

    def infer_columns(self, before: Columns) -> Columns:
        return before.with_columns((("tag{number}", "string"),))

    def work(self, tools):
        return lambda row: [row.with_values({{"tag{number}": self.tag}})]
"""


def main() -> None:
    print(describe_machine())
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "rows.csv").write_text("a\n1\n")
        plugins = install_plugins(folder)
        rounds = [(run_driver(folder, ()), run_driver(folder, plugins)) for _ in range(ROUNDS)]
    for index, unit in enumerate(("s", "s of CPU")):
        alone, loaded = (median(each[contender][index] for each in rounds) for contender in (0, 1))
        differences = sorted(each[1][index] - each[0][index] for each in rounds)
        middle, least, most = median(differences), differences[0], differences[-1]
        print(f"{alone:.2f} and {loaded:.2f} {unit} with {PLUGINS}: {middle:+.2f} ({least:+.2f} to {most:+.2f})")


def install_plugins(folder: Path) -> tuple[Path, ...]:
    """Install wheels of plugins, as uploads of an organization are."""
    store, installed = EnvironmentStore.open(folder / "packages", str(folder)), list[Path]()
    for number in range(PLUGINS):
        wheel = folder / f"acme_{number}-1.0-py3-none-any.whl"
        wheel.write_bytes(build_wheel(f"acme-{number}", STAGE.format(number=number), module=f"acme_{number}"))

        def copy(target: Path, wheel: Path = wheel) -> None:
            shutil.copy(wheel, target)

        installed += store.install_wheel(f"{number}" * 32, wheel.name, copy)
    return tuple(installed)


def run_driver(folder: Path, plugins: tuple[Path, ...]) -> tuple[float, float]:
    """Return the seconds and the CPU of a driver to its end; with plugins, the pipeline has a stage of each."""
    stages = "".join(f"  - {{stage: acme{number}}}\n" for number in range(PLUGINS)) if plugins else ""
    spec = RunRequest(
        execution_id="e1",
        job_id="j1",
        project_id="p1",
        organization_id="o1",
        job_name="tags",
        attempt=1,
        pipeline_yaml=f"pipeline:\n  - {{stage: load_csv, args: ['{folder}/rows.csv']}}\n{stages}",
        plugins=tuple(str(each) for each in plugins),
        local_folders=(str(folder),),
        output=OutputSpec(path=str(folder / "out")),
    )
    (folder / "spec.json").write_text(spec.to_json())
    shutil.rmtree(folder / "out", ignore_errors=True)
    began, before = time.perf_counter(), measure_cpu()
    command = [sys.executable, "-P", "-m", "driver", str(folder / "spec.json")]
    ran = subprocess.run(
        command, cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    if ran.returncode != 0:
        raise SystemExit(ran.stderr)
    return time.perf_counter() - began, measure_cpu() - before


def measure_cpu() -> float:
    """Return the CPU seconds of the processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
