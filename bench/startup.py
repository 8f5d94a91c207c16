"""`spindle up` from nothing to ready, and what its processes hold: `python -m bench.startup`.

Ready is when the API and the Dagster UI both answer. Memory is PSS (shared pages divided among their holders), read
ten seconds after the last of three starts.
"""

from __future__ import annotations

import re
import time
from pathlib import Path

from bench.service import machine, spindle

STARTS = 3
PSS = re.compile(r"^Pss:\s+(\d+) kB", re.MULTILINE)


def main() -> None:
    print(machine())
    for _ in range(STARTS):
        with spindle() as service:
            print(f"ready after {service.ready_after:.1f} s", flush=True)
            time.sleep(10)
            held = memory(service.process.pid)
    report(held)


def memory(root: int) -> list[tuple[float, str]]:
    return sorted(((pss_mib(pid), name_of(pid)) for pid in family(root)), reverse=True)


def report(held: list[tuple[float, str]]) -> None:
    for mib, name in held:
        print(f"{mib:8.0f} MiB  {name}")
    print(f"{sum(mib for mib, _ in held):8.0f} MiB  in {len(held)} processes")


def family(root: int) -> list[int]:
    """The process and all its descendants."""
    return [root] + [pid for one in children(root) for pid in family(one)]


def children(pid: int) -> list[int]:
    return [
        int(number)
        for task in Path(f"/proc/{pid}/task").iterdir()
        for number in (task / "children").read_text().split()
    ]


def pss_mib(pid: int) -> float:
    found = PSS.search(Path(f"/proc/{pid}/smaps_rollup").read_text())
    return int(found[1]) / 1024 if found else 0.0


def name_of(pid: int) -> str:
    arguments = Path(f"/proc/{pid}/cmdline").read_text().rstrip("\0").split("\0")
    return " ".join(Path(argument).name if argument.startswith("/") else argument for argument in arguments)[:90]


if __name__ == "__main__":
    main()
