"""`spindle test` of 30 recorded pages beside an interpreter that does nothing: python -m bench.recorded [ROUNDS]

Seconds on the clock and of CPU; those on the clock count on a machine that does nothing else.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.service import describe_machine
from tests.support.site import serve_site

PAGES = 30
_PIPELINE = """\
fetch: {url: "URL/"}
pipeline:
  - {stage: wgetJoin, args: [a]}
  - {stage: extract, args: [{selector: h1, as: title}, {selector: b, method: price, as: price}]}
"""


def main(rounds: int) -> None:
    print(describe_machine())
    with TemporaryDirectory() as folder, serve_site() as site:
        file = Path(folder, "shop.yaml")
        links = "".join(f"<a href=/{number}>{number}</a>" for number in range(1, PAGES))
        site.serve({"/": links, **{f"/{n}": f"<h1>Lamp {n}</h1><b>{n}.50</b>" for n in range(1, PAGES)}})
        file.write_text(_PIPELINE.replace("URL", site.url))
        _run_spindle("record", str(file))
        runs = [(_measure(lambda: _run_spindle("test", str(file))), _measure(_run_nothing)) for _ in range(rounds)]
    for name, measured in zip(
        (f"spindle test of {PAGES} pages", "python -c pass"), zip(*runs, strict=True), strict=True
    ):
        clock, cpu = zip(*measured, strict=True)
        print(
            f"{name:26} {statistics.median(clock):.2f} s ({min(clock):.2f} to {max(clock):.2f}), "
            f"CPU {statistics.median(cpu):.2f} s ({min(cpu):.2f} to {max(cpu):.2f})"
        )


def _run_spindle(*arguments: str) -> None:
    command = Path(sys.executable).parent / "spindle"
    subprocess.run([command, *arguments], check=True, capture_output=True)


def _run_nothing() -> None:
    subprocess.run([sys.executable, "-c", "pass"], check=True)


def _measure(run: Callable[[], object]) -> tuple[float, float]:
    """Return the seconds on the clock, and of the CPU of the processes that it started."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    run()
    seconds, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
