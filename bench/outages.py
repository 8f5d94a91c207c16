"""The long round on PostgreSQL: `python -m bench.outages [EXECUTIONS [OUTAGES [RESTARTS [INSTANCES]]]]`.

Clients execute a job of 20 pages without Spark on each instance in turns. Meanwhile the database is away, each time for
5 to 75 s, and instances are stopped and started again, or killed with all their processes. The defaults are the long
round, 3000 20 20 2; where executions end before the last fault, there are more. Prints each fault, how many executions
were accepted and completed, which failed and why, and what must be zero: outputs that were published twice, executions
that never ended, executions and runs of Dagster that disagree. `SPINDLE_CRASH_SEED` repeats the choices of a round.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from random import Random
from uuid import uuid4

from sqlalchemy import func, select, text

from bench.service import describe_machine
from bench.sites import serve_catalog
from bench.throughput import PAGES, PIPELINE, SIZE
from core.tables import DatasetVersion, Execution
from core.tables.states import TERMINAL, State
from tests.support.crashes import PersistentClient, choose_seed, kill_everything
from tests.support.postgres import Cluster, cluster
from tests.support.service import Job, Service

CLIENTS_OF_EACH = 4
AWAY_SECONDS, QUIET_SECONDS = (5.0, 75.0), (5.0, 40.0)
END_SECONDS, POLL_SECONDS = 900, 2.0
STATES_OF_RUNS = text(
    "SELECT tags.value, array_agg(runs.status) FROM dagster.run_tags AS tags JOIN dagster.runs AS runs"
    " ON runs.run_id = tags.run_id WHERE tags.key = 'spindle/execution' GROUP BY tags.value"
)


def main() -> None:
    executions, outages, restarts, instances = map(
        int, (*sys.argv[1:5], *("3000", "20", "20", "2")[len(sys.argv) - 1 :])
    )
    print(describe_machine())
    chance = Random(choose_seed())
    with serve_catalog(PAGES, SIZE) as url, serve_instances(instances) as (services, server):
        job = services[0].make_job(PIPELINE.format(url=url))
        faults = [partial(stop_database, server, chance)] * outages + [partial(restart, services, chance)] * restarts
        chance.shuffle(faults)
        began, ended, accepted = time.monotonic(), threading.Event(), list[str]()

        def tell(what: str) -> None:
            print(f"{(time.monotonic() - began) / 60:.1f} minutes, {len(accepted)} accepted: {what}", flush=True)

        with ThreadPoolExecutor(1) as disturbing:
            disturbed = disturbing.submit(disturb, faults, ended, chance, tell)
            try:
                execute(services, job, executions, disturbed.done, accepted)
            finally:
                ended.set()
        tell(f"the end, after {disturbed.exception() or disturbed.result()} faults")
        report(services[0], accepted)


@contextmanager
def serve_instances(number: int) -> Generator[tuple[list[Service], Cluster]]:
    """Yield services on one database and one folder of files, and the server of the database."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="spindle-bench-")))
        server = stack.enter_context(cluster())
        place = {"SPINDLE_DATABASE_URL": server.url}
        place |= {"SPINDLE_REQUESTS_PER_MINUTE": "100000", "SPINDLE_STOP_SECONDS": "5"}
        (folder / "files").mkdir()
        services: list[Service] = []
        for each in range(number):
            service = Service(folder / f"data{each}", place, storage=str(folder / "files"))
            if services:
                service.data.mkdir()
                for name in ("secret-key", "admin-key"):
                    (service.data / name).write_bytes((services[0].data / name).read_bytes())
            services.append(service.start())
            stack.callback(service.stop)
        yield services, server


def execute(
    services: Sequence[Service], job: Job, executions: int, is_disturbed: Callable[[], bool], accepted: list[str]
) -> None:
    """Append the ids of accepted executions: as many as asked for, and more until the last fault."""
    numbers = count()
    clients = [PersistentClient(each) for each in services]

    def work(number: int) -> None:
        while (turn := next(numbers)) < executions or not is_disturbed():
            client = clients[(turn + number) % len(clients)]
            path = f"{job.path}/execute?queue=true"
            made = client.call("POST", path, {}, Idempotency_Key=uuid4().hex)["executionId"]
            accepted.append(made)
            while client.call("GET", f"{job.path}/executions/{made}/status")["status"] not in TERMINAL:
                time.sleep(POLL_SECONDS / 4)

    with ThreadPoolExecutor(CLIENTS_OF_EACH * len(services)) as pool:
        list(pool.map(work, range(CLIENTS_OF_EACH * len(services))))


def disturb(
    faults: Sequence[Callable[[], str]], ended: threading.Event, chance: Random, tell: Callable[[str], None]
) -> int:
    """Cause and print one fault after the other; return how many there were before the executions ended."""
    for number, fault in enumerate(faults):
        if ended.wait(chance.uniform(*QUIET_SECONDS)):
            return number
        tell(fault())
    return len(faults)


def stop_database(server: Cluster, chance: Random) -> str:
    seconds = chance.uniform(*AWAY_SECONDS)
    server.stop()
    time.sleep(seconds)
    server.start_again()
    return f"the database was away for {seconds:.0f} s"


def restart(services: Sequence[Service], chance: Random) -> str:
    service = chance.choice(services)
    if is_killed := chance.random() < 1 / 2:
        kill_everything(service)
    else:
        service.stop()
    service.start()
    return f"{service.data.name} was {'killed' if is_killed else 'stopped'} and started"


def report(service: Service, accepted: Sequence[str]) -> None:
    with service.database() as database:

        def count_open() -> int:
            with database.read() as session:
                return session.scalar(select(func.count()).where(Execution.state.not_in(TERMINAL))) or 0

        deadline = time.monotonic() + END_SECONDS
        while count_open() and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        time.sleep(5 * POLL_SECONDS)  # of runs whose executions have just ended
        with database.read() as session:
            rows = {each.id: each for each in session.scalars(select(Execution))}
            twice = select(DatasetVersion.execution_id).group_by(DatasetVersion.execution_id).having(func.count() > 1)
            published_twice = len(session.scalars(twice).all())
            runs = {execution: sorted(states) for execution, states in session.execute(STATES_OF_RUNS)}
    found = [rows[each] for each in accepted if each in rows]
    states = Counter(each.state for each in found)
    print("accepted and lost:", len(accepted) - len(found))
    print("states:", dict(states), "repeated by a client:", len(rows) - len(set(accepted)))
    failures = (f"{each.error_code}: {each.error_message}" for each in found if each.state == State.FAILED)
    for failure, times in Counter(failures).most_common():
        print(f"failed {times} times: {failure}")
    print("retried:", sum(each.retries > 0 for each in found))
    print("published twice:", published_twice, "never ended:", sum(each.state not in TERMINAL for each in found))
    ends = {State.COMPLETED: "SUCCESS", State.FAILED: "FAILURE"}
    wrong = Counter(
        (str(each.state), *runs.get(each.id, ()))
        for each in found
        if ends.get(State(each.state)) not in runs.get(each.id, ())
    )
    print("runs that disagree:", dict(wrong))


if __name__ == "__main__":
    main()
