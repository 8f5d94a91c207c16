"""Pods of executions whose instance of the service was killed: the leader goes on with them, or ends them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import cast

import pytest
from dagster import DagsterRun, DagsterRunStatus
from pydantic import SecretStr
from sqlalchemy import select

from core.infra import instances
from core.infra.database import open_database
from core.infra.heartbeats import Heartbeats
from core.infra.instances import Membership, get_instance_id
from core.infra.migrations import migrate
from core.infra.settings import Settings
from core.lifecycle.executions.reports import cancel, claim
from core.tables import Execution
from core.tables.states import State
from orchestration import launcher
from orchestration.client import DagsterClient
from orchestration.compute.kubernetes.compute import KubernetesCompute
from orchestration.compute.protocol import DriverHandle
from orchestration.launcher import Launcher
from orchestration.run_drivers import Service
from orchestration.running_attempts import RunningAttempts
from orchestration.runs import RunHost
from tests.orchestration.compute.kubernetes.test_idle_pods import make_spec
from tests.support.fake_cluster import FakeCluster
from tests.support.postgres import new_database
from tests.support.service import PATIENCE_SECONDS, free_port, wait_until
from tests.support.shop import Shop, make_shop


class Runs:
    """The runs of an instance, which has none at first; those that it took over end with their pods."""

    def __init__(self) -> None:
        self.threads: list[str] = []
        self.ended: set[str] = set()

    def take_over(self, run_id: str) -> None:
        self.threads.append(run_id)

    def find_runs(self, run_ids: Iterable[str]) -> Mapping[str, DagsterRun]:
        states = {True: DagsterRunStatus.FAILURE, False: DagsterRunStatus.STARTED}
        return {each: DagsterRun("job", each, status=states[each in self.ended]) for each in run_ids}


@pytest.fixture
def folders(postgres: str, tmp_path: Path) -> Iterator[Mapping[str, Settings]]:
    """The settings of three instances on one database."""
    with new_database(postgres) as url:
        found = {
            name: Settings(data=tmp_path / name, database_url=SecretStr(url)) for name in ("killed", "leader", "other")
        }
        migrate(found["killed"])
        for each in found.values():
            each.data.mkdir(exist_ok=True)
            Heartbeats(each.data).reset()
        yield found


@pytest.fixture
def shop(folders: Mapping[str, Settings]) -> Iterator[Shop]:
    """On the database as the killed instance has it open, which claims what it submits."""
    with closing(open_database(folders["killed"])) as database:
        yield make_shop(folders["killed"], database)


@pytest.mark.long
def test_the_leader_goes_on_with_pods_of_a_killed_instance_and_ends_those_that_nobody_wants(
    shop: Shop,
    folders: Mapping[str, Settings],
    cluster: FakeCluster,
    create: Callable[[], KubernetesCompute],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ids = {name: get_instance_id(each.data) for name, each in folders.items()}
    running, lost, cancelled = (shop.submit() for _ in range(3))
    killed = create()
    for execution in (running, lost, cancelled):
        claim(shop.database, execution.id, 1, f"run of {execution.id}")
        assert killed.launch(make_spec(execution.id, shop.organization_id), {})
    members = {name: Membership(folders[name]) for name in ids}
    Heartbeats(folders["leader"].data).lead()
    for each in (*members.values(), *members.values()):
        each.renew()
    with closing(open_database(folders["leader"])) as first, closing(open_database(folders["other"])) as second:
        databases, runs = {"leader": first, "other": second}, {"leader": Runs(), "other": Runs()}
        launchers = {
            name: Launcher(
                Service(folders[name], databases[name], create(), RunningAttempts(databases[name])),
                cast(RunHost, runs[name]),
                DagsterClient(free_port()),
                members[name],
            )
            for name in databases
        }
        monkeypatch.setattr(launcher, "CANCEL_TIMEOUT", timedelta())

        def look() -> None:
            for each in launchers.values():
                each.sync_run_states()
                each.kill_orphans()
                each.release_slots()

        def list_owners() -> list[str | None]:
            with shop.database.read() as session:
                return [*session.scalars(select(Execution.instance_id).order_by(Execution.id))]

        look()
        assert list_owners() == [ids["killed"]] * 3, "its lease has not ended"
        cancel(shop.database, shop.organization_id, cancelled.id, "It is not wanted.")
        monkeypatch.setattr(instances, "ALIVE", instances.Instance.id != ids["killed"])
        monkeypatch.setattr(instances, "LEASE", timedelta())
        for name in launchers:
            members[name].renew()
        launchers["other"].sync_run_states()
        launchers["other"].kill_orphans()
        assert (list_owners(), len(cluster.pods)) == ([ids["killed"]] * 3, 3), "it does not lead"
        look()
        assert list_owners() == [ids["leader"], ids["leader"], ids["killed"]]
        assert runs["leader"].threads == [f"run of {each.id}" for each in (running, lost)]
        assert runs["other"].threads == []
        assert list_pods(cluster) == {running.id, lost.id}
        with shop.database.read() as session:
            assert not session.get_one(Execution, cancelled.id).holds_slot

        cluster.change_status(find_pod(cluster, lost), {"phase": "Failed"})
        runs["leader"].ended.add(f"run of {lost.id}")
        handle = DriverHandle(shop.organization_id, lost.id, 1)
        wait_until(lambda: not launchers["leader"]._compute.observe(handle).running, PATIENCE_SECONDS)
        look()
        with shop.database.read() as session:
            found = [session.get_one(Execution, each.id) for each in (running, lost)]
        assert [(each.state, each.error_code) for each in found] == [
            (State.PENDING, None),
            (State.FAILED, "driver-lost"),
        ]
        for each in members.values():
            each.end()


def list_pods(cluster: FakeCluster) -> set[str]:
    return {pod["metadata"]["labels"]["spindle/execution"] for pod in cluster.pods.values()}


def find_pod(cluster: FakeCluster, execution: Execution) -> str:
    labels = {name: pod["metadata"]["labels"]["spindle/execution"] for name, pod in cluster.pods.items()}
    return next(name for name, id_ in labels.items() if id_ == execution.id)
