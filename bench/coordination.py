"""The coordinator of a run with many tasks: `python -m bench.coordination [TASKS [SECONDS]]`.

TASKS fake tasks in another process hold a connection each, as those of as many cores would. Each reports its counts
twice a second, and takes a slot at one of HOSTS hosts once a second. Printed are the threads, memory and CPU of the
coordinator's process and the waits for slots, for one task and for all.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import sys
import time
from asyncio import StreamReader, StreamWriter
from multiprocessing.queues import Queue
from statistics import median, quantiles

import psutil

from bench.service import describe_machine
from pipelines.coordination.messages import (
    LENGTH_BYTES,
    Acquire,
    Counts,
    Endpoint,
    Grant,
    Hello,
    Release,
    Report,
    TaskMessage,
    decode_driver_message,
    encode_frame,
)
from pipelines.coordination.server import Coordinator
from pipelines.fetch import CrawlOptions

TASKS = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000
SECONDS = int(sys.argv[2]) if len(sys.argv) > 2 else 30
HOSTS = 100
PER_HOST = 16
REPORT_SECONDS = 0.5
PAGES = 5  # of a task between two reports
LOOK_SECONDS = 0.5
START_SECONDS = 0.001  # from the start of one task to that of the next


def main() -> None:
    print(describe_machine())
    with Coordinator():
        pass  # what it imports is no task's
    for tasks in (1, TASKS):
        measure(tasks)


def measure(tasks: int) -> None:
    options = CrawlOptions(per_host=PER_HOST, robots=False)
    process = psutil.Process()
    memory, cpu = process.memory_info().rss, process.cpu_times()
    with Coordinator(options) as coordinator:
        spawn = multiprocessing.get_context("spawn")
        waits: Queue[list[float]] = spawn.Queue()
        clients = spawn.Process(target=run_tasks, args=(coordinator.endpoint, tasks, waits))
        clients.start()
        peak = threads = 0
        while waits.empty():
            peak, threads = max(peak, process.memory_info().rss), max(threads, process.num_threads())
            time.sleep(LOOK_SECONDS)
            coordinator.get_counts()  # as for the execution's progress
        pages = coordinator.get_counts()["step"].pages
        found, after = waits.get(), process.cpu_times()
        clients.join()
    used = after.user + after.system - cpu.user - cpu.system
    print(f"{tasks} tasks, {SECONDS} s: {len(found):,} slots, {pages:,} pages reported")
    print(f"  threads          {threads:>8}")
    print(f"  memory, MiB      {(peak - memory) / 2**20:>8.1f}")
    print(f"  CPU, share       {used / SECONDS:>8.3f}")
    print(f"  wait, ms, median {median(found) * 1000:>8.1f}")
    print(f"  wait, ms, p99    {quantiles(found, n=100)[-1] * 1000:>8.1f}", flush=True)


def run_tasks(endpoint: Endpoint, tasks: int, waits: Queue[list[float]]) -> None:
    async def run() -> list[list[float]]:
        return await asyncio.gather(*(run_task(endpoint, number) for number in range(tasks)))

    waits.put([seconds for each in asyncio.run(run()) for seconds in each])


async def run_task(endpoint: Endpoint, number: int) -> list[float]:
    """Return the seconds of each wait for a slot."""
    await asyncio.sleep(number * START_SECONDS)
    reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
    writer.write(encode_frame(Hello(endpoint.token, f"task {number}")))
    found, pages, origin = list[float](), 0, f"http://host{number % HOSTS}"
    ends = time.monotonic() + SECONDS
    while (began := time.monotonic()) < ends:
        slots = await ask(reader, writer, Acquire(origin, 1))
        found.append(time.monotonic() - began)
        writer.write(encode_frame(Release(origin, slots)))
        for _ in range(2):
            urls = [hash((number, pages, each)) for each in range(PAGES)]
            pages += PAGES
            counts = Counts(rows=pages, pages=pages, bytes=pages * 5_000)
            writer.write(encode_frame(Report({"step": counts}, fetched=urls)))
            await asyncio.sleep(REPORT_SECONDS)
    writer.close()
    return found


async def ask(reader: StreamReader, writer: StreamWriter, message: TaskMessage) -> int:
    """Return the number of granted slots."""
    writer.write(encode_frame(message))
    while True:
        answer = decode_driver_message(await reader.readexactly(int.from_bytes(await reader.readexactly(LENGTH_BYTES))))
        if isinstance(answer, Grant):
            return answer.slots


if __name__ == "__main__":
    main()
