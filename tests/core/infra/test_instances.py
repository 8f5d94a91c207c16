"""Leases of the instances of a database: whose work is whose, and when it is taken over."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, closing
from datetime import timedelta
from pathlib import Path

import pytest
from pydantic import SecretStr

from core.infra import instances
from core.infra.database import open_database
from core.infra.heartbeats import Heartbeats
from core.infra.instances import Membership, get_instance_id, is_elsewhere, list_instances
from core.infra.migrations import migrate
from core.infra.settings import Settings
from tests.support.pgbouncer import pooler
from tests.support.postgres import new_database


@pytest.fixture(params=["direct", "pooled"])
def two(postgres: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[list[Settings]]:
    with new_database(postgres) as direct, ExitStack() as stack:
        url = direct if request.param == "direct" else stack.enter_context(pooler(direct))
        found = [Settings(data=tmp_path / name, database_url=SecretStr(url)) for name in ("first", "second")]
        migrate(found[0])
        for each in found:
            each.data.mkdir(exist_ok=True)
            Heartbeats(each.data).reset()
        yield found


@pytest.mark.long
def test_the_leader_takes_over_what_an_instance_without_lease_has_begun(
    two: list[Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [get_instance_id(each.data) for each in two]
    first, second = map(Membership, two)
    assert first.is_mine(ids[0])
    assert not first.is_mine(ids[1])  # it does not know yet who is there
    first.renew()
    second.renew()
    first.renew()
    with closing(open_database(two[0])) as database, database.read() as session:
        assert [each.id for each in list_instances(session)] == ids
    assert not first.is_alone
    assert (is_elsewhere(two[0].data, ids[1]), is_elsewhere(two[0].data, ids[0])) == (True, False)
    Heartbeats(two[0].data).lead()
    assert not first.is_mine(ids[1])
    assert first.is_mine(None)  # of a version without instances
    assert not second.is_mine(None)

    monkeypatch.setattr(instances, "ALIVE", instances.Instance.id == ids[0])  # time has gone
    first.renew()
    assert not first.is_mine(ids[1])  # nobody could renew a lease while the database was away
    monkeypatch.setattr(instances, "LEASE", timedelta())
    first.renew()
    assert first.is_lost(ids[1])
    assert not is_elsewhere(two[0].data, ids[1])
    assert not first.is_lost(ids[0])
    assert not second.is_lost(ids[0])
    first.end()
    second.end()


@pytest.mark.long
def test_an_instance_that_stops_is_not_waited_for(two: list[Settings]) -> None:
    first, second = map(Membership, two)
    Heartbeats(two[0].data).lead()
    second.renew()
    first.renew()
    assert not first.is_lost(get_instance_id(two[1].data))
    second.end()
    second.renew()  # of a thread that was late
    first.renew()
    assert first.is_lost(get_instance_id(two[1].data))
    first.end()


def test_sqlite_has_one_instance(tmp_path: Path) -> None:
    member = Membership(Settings(data=tmp_path))
    member.start()
    assert member.is_alone
    assert member.is_mine("of a copied folder")
    member.end()


def test_a_copied_data_folder_is_another_instance(tmp_path: Path) -> None:
    first = get_instance_id(tmp_path / "first")
    shutil.copytree(tmp_path / "first", tmp_path / "second")
    assert get_instance_id(tmp_path / "second") != first
    get_instance_id.cache_clear()
    assert get_instance_id(tmp_path / "first") == first
