"""Instances on one PostgreSQL and one shared folder: one is stopped or killed, and nothing is lost or doubled."""

from __future__ import annotations

import shutil
import threading
import time
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any
from uuid import uuid4

import httpx
import pytest
from sqlalchemy import select

from core.infra.instances import LEASE, get_instance_id
from core.tables import DatasetVersion, Execution
from tests.support.crashes import kill_everything
from tests.support.postgres import Cluster, cluster
from tests.support.processes import list_processes_of
from tests.support.service import PATIENCE_SECONDS, POLL_SECONDS, Job, Service, wait_until
from tests.support.site import serve_gated_site

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]
PIPELINE = """\
fetch: {{url: "{url}"}}
pipeline:
  - {{stage: wgetJoin, args: ["ul li a"]}}
  - {{stage: extract, args: [{{selector: h1, method: text, as: title}}]}}
"""
EACH = 3  # executions
ENDED = ("COMPLETED", "FAILED", "CANCELLED")


@pytest.fixture(scope="module")
def database() -> Iterator[Cluster]:
    with cluster() as made:
        yield made


@pytest.fixture(scope="module")
def pair(database: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Service]]:
    folder = tmp_path_factory.mktemp("instances")
    environment = {
        "SPINDLE_DATABASE_URL": database.url,
        "SPINDLE_HEARTBEAT_SECONDS": "1",
        "SPINDLE_DAGSTER_RUNS": str(EACH),  # or the first to look may take all
    }
    first, second = (
        Service(folder / name, environment, storage=str(folder / "storage")) for name in ("first", "second")
    )
    with serve(first):
        share_keys(first, second)
        with serve(second):
            yield [first, second]


def share_keys(first: Service, other: Service) -> None:
    other.data.mkdir()
    for name in ("secret-key", "admin-key"):
        shutil.copy(first.data / name, other.data / name)


@contextmanager
def serve(service: Service) -> Generator[None]:
    service.start()
    try:
        yield
    finally:
        service.stop()
    wait_until(lambda: not list_processes_of(service.data), PATIENCE_SECONDS)


def test_a_restart_of_three_one_after_the_other_under_load_loses_nothing(pair: list[Service]) -> None:
    first, second = pair
    assert [ask_readiness(each)["leads"] for each in pair] == [True, False]
    third = Service(first.data.with_name("third"), first.environment, storage=first.storage)
    share_keys(first, third)
    with serve_gated_site() as site, serve(third):
        three = [*pair, third]
        site.open()
        job = first.make_job(PIPELINE.format(url=site.url))
        accepted, stop = list[str](), threading.Event()
        load = threading.Thread(target=keep_executing, args=(three, job, accepted, stop))
        load.start()
        try:
            for each in three:
                assert each.stop() == 0
                each.start()
        finally:
            stop.set()
            load.join()
        assert len(accepted) > EACH
        ended = wait_for_ends(second, accepted)
        assert Counter(each.state for each in ended) == {"COMPLETED": len(accepted)}
        assert len({each.instance_id for each in ended}) > 1
    # one of them: an instance that is back before the other looks may lead again
    wait_until(lambda: sorted(ask_readiness(each)["leads"] for each in pair) == [False, True], PATIENCE_SECONDS)
    assert_published_once(second, accepted)


def test_an_outage_takes_no_execution_from_its_instance(pair: list[Service], database: Cluster) -> None:
    with serve_gated_site() as site:
        accepted, _ = execute_on_both(pair, site.url)
        database.stop()
        site.open()
        time.sleep(LEASE.total_seconds() + 5)
        database.start()
        ended = wait_for_ends(pair[0], accepted)
    assert [(each.state, each.attempt, each.error_message) for each in ended] == [("COMPLETED", 1, None)] * len(
        accepted
    )


def test_executions_of_a_killed_instance_complete_with_the_other(pair: list[Service]) -> None:
    wait_until(lambda: {ask_readiness(each)["leads"] for each in pair} == {True, False}, PATIENCE_SECONDS)
    first, second = sorted(pair, key=lambda each: not ask_readiness(each)["leads"])
    ids = [get_instance_id(each.data) for each in (first, second)]
    # an instance says that it leads with the next renewal of its lease
    wait_until(
        lambda: {each["id"]: each["leads"] for each in list_instances(second)} == {ids[0]: True, ids[1]: False},
        PATIENCE_SECONDS,
        every=POLL_SECONDS,
    )
    assert {str(each.data) in shown["name"] for each in pair for shown in list_instances(second)} == {True, False}
    with serve_gated_site() as site:
        accepted, began = execute_on_both(pair, site.url)
        kill_everything(first)
        wait_until(lambda: not list_processes_of(first.data), PATIENCE_SECONDS)
        site.open()
        ended = wait_for_ends(second, accepted)
    assert [each.state for each in ended] == ["COMPLETED"] * len(accepted)
    assert {each.instance_id for each in ended} == {ids[1]}
    attempts = {each.id: each.attempt for each in ended}
    assert attempts == {each: 2 if instance == ids[0] else 1 for each, instance in began.items()}
    assert_published_once(second, accepted)
    wait_until(lambda: ask_readiness(second)["leads"], PATIENCE_SECONDS)
    wait_for_tick(second)
    runs = [run for execution_id in accepted for run in second.runs(execution_id)]
    assert Counter(run["status"] for run in runs)["SUCCESS"] == len(accepted)
    first.start()
    assert not ask_readiness(first)["leads"]


def list_instances(service: Service) -> list[dict[str, Any]]:
    with service.client() as client:
        return client.get(f"http://127.0.0.1:{service.port}/api/health").raise_for_status().json()["instances"]


def execute_on_both(pair: Sequence[Service], url: str) -> tuple[list[str], Mapping[str, str | None]]:
    """Return executions that both run, and their instances."""
    jobs = [service.make_job(PIPELINE.format(url=url)) for service in pair]
    accepted = [service.execute(job) for service, job in zip(pair, jobs, strict=True) for _ in range(EACH)]
    wait_until(lambda: {each.state for each in read(pair[0], accepted)} == {"RUNNING"}, PATIENCE_SECONDS)
    began = {each.id: each.instance_id for each in read(pair[0], accepted)}
    assert {*began.values()} == {get_instance_id(each.data) for each in pair}
    return accepted, began


def keep_executing(pair: Sequence[Service], job: Job, accepted: list[str], stop: threading.Event) -> None:
    """Execute once a second, with the next instance where one does not answer."""
    number = 0
    while not stop.wait(1):
        number += 1
        headers = {"X-API-Key": pair[0].key, "Idempotency-Key": f"execution {number} of {uuid4()}"}
        answer = None
        while answer is None:
            turn = number % len(pair)
            for service in (*pair[turn:], *pair[:turn]):
                with suppress(httpx.TransportError):
                    url = f"{service.base_url}{job.path}/execute?queue=true"
                    found = httpx.post(url, json={}, headers=headers, timeout=PATIENCE_SECONDS)
                    if found.status_code < 500:
                        answer = found
                        break
        accepted.append(answer.raise_for_status().json()["executionId"])


def ask_readiness(service: Service) -> Mapping[str, Any]:
    answer = httpx.get(f"http://127.0.0.1:{service.port}/readyz", timeout=PATIENCE_SECONDS)
    return answer.json() if answer.is_success else {"leads": None, "reason": answer.text}


def read(service: Service, ids: Sequence[str]) -> Sequence[Execution]:
    with service.database() as database, database.read() as session:
        return session.scalars(select(Execution).where(Execution.id.in_(ids)).order_by(Execution.id)).all()


def wait_for_ends(service: Service, ids: Sequence[str]) -> Sequence[Execution]:
    wait_until(lambda: all(each.state in ENDED for each in read(service, ids)), 2 * PATIENCE_SECONDS, every=0.5)
    return read(service, ids)


def assert_published_once(service: Service, ids: Sequence[str]) -> None:
    with service.database() as database, database.read() as session:
        versions = session.scalars(select(DatasetVersion.execution_id).where(DatasetVersion.execution_id.in_(ids)))
        assert Counter(versions) == Counter(ids)


def wait_for_tick(service: Service) -> None:
    """Wait for a tick of Dagster's scheduler, which executes a job once."""
    with serve_gated_site() as site:
        site.open()
        job = service.make_job(PIPELINE.format(url=site.url))
        with service.client() as client:
            schedule = {"cronSchedule": "* * * * *", "timezone": "UTC", "enabled": True}
            client.put(f"/projects/id/{job.project_id}/schedule", json=schedule).raise_for_status()

            def list_fired() -> list[Execution]:
                with service.database() as database, database.read() as session:
                    return [*session.scalars(select(Execution).where(Execution.job_id == job.job_id))]

            wait_until(lambda: any(each.state == "COMPLETED" for each in list_fired()), 150, every=1)
            client.put(f"/projects/id/{job.project_id}/schedule", json={**schedule, "enabled": False})
        ticks = Counter(each.tick_at for each in list_fired())
        assert {*ticks.values()} == {1}
