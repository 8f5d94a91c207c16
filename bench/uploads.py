"""Streams into S3 and out of it: through the service's storage beside boto3's own upload and download of a file.

    SPINDLE_TEST_S3_ENDPOINT=... python -m bench.uploads [--megabytes 256] [--rounds 5]

Goals: at most 1.2 times boto3's time, and at most 64 MiB of memory more than before the stream, whatever its size.
"""

from __future__ import annotations

import argparse
import io
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from core.infra.settings import Settings
from core.infra.storage import open_storage
from tests.support.s3 import find_bucket

MIB = 2**20
BLOCK = random.Random(3).randbytes(MIB)


class Stream(io.RawIOBase):
    """So many MiB that are in no file and not in memory."""

    def __init__(self, megabytes: int) -> None:
        self._left = megabytes * MIB

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # pyright: ignore[reportIncompatibleMethodOverride]
        size = min(len(buffer), self._left, MIB)
        buffer[:size] = BLOCK[:size]
        self._left -= size
        return size


def measure_time(megabytes: int, rounds: int) -> None:
    bucket = find_bucket()
    assert bucket is not None, "SPINDLE_TEST_S3_ENDPOINT is not set"
    storage = open_storage(Settings(data=Path("bench"), **bucket.settings).storage)
    seconds: dict[str, list[float]] = {name: [] for name in ("upload", "boto3 upload", "download", "boto3 download")}
    with tempfile.TemporaryDirectory() as scratch:
        source, target = Path(scratch) / "source", Path(scratch) / "target"
        source.write_bytes(BLOCK * megabytes)

        def store_file() -> None:
            with source.open("rb") as content:
                storage.put("bench/a", content)

        def read_file() -> None:
            with storage.open("bench/a") as content, target.open("wb") as file:
                while chunk := content.read(2**18):
                    file.write(chunk)

        steps = {
            "upload": store_file,
            "boto3 upload": lambda: bucket.client.upload_file(str(source), bucket.name, f"{bucket.prefix}/bench/b"),
            "download": read_file,
            "boto3 download": lambda: bucket.client.download_file(bucket.name, f"{bucket.prefix}/bench/b", str(target)),
        }
        for _ in range(rounds):
            for name, step in steps.items():
                started = time.perf_counter()
                step()
                seconds[name].append(time.perf_counter() - started)
    medians = {name: statistics.median(each) for name, each in seconds.items()}
    for name in ("upload", "download"):
        ratio = medians[name] / medians[f"boto3 {name}"]
        print(f"{name} of {megabytes} MiB: {medians[name]:.2f} s, {ratio:.2f} of boto3's own")
    for key in ("a", "b"):
        storage.delete(f"bench/{key}")


def read_peak() -> float:
    """The most memory in MiB that this program has had; getrusage would count its parent's too."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024


def measure_memory(megabytes: int) -> None:
    """Print the memory that a process has needed more at its peak than before it streamed."""
    bucket = find_bucket()
    assert bucket is not None
    storage = open_storage(Settings(data=Path("bench"), **bucket.settings).storage)
    storage.check()
    before = read_peak()
    storage.put("bench/a", io.BufferedReader(Stream(megabytes), MIB))
    with storage.open("bench/a") as content:
        while content.read(2**18):
            pass
    storage.delete("bench/a")
    print(f"a stream of {megabytes} MiB in and out added {read_peak() - before:.0f} MiB of memory")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--megabytes", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--memory", action="store_true")
    arguments = parser.parse_args()
    if arguments.memory:
        measure_memory(arguments.megabytes)
    else:
        measure_time(arguments.megabytes, arguments.rounds)
        subprocess.run(
            [sys.executable, "-m", "bench.uploads", "--memory", "--megabytes", str(8 * arguments.megabytes)], check=True
        )
