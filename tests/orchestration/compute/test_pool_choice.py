"""Which drivers with Spark an execution may take; their processes do nothing."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from core.infra.settings import Settings
from core.lifecycle.executions.spec import build_spark_spec
from driver.host_folder import READY, SOCKET, HostSpec
from orchestration.compute.driver_queue import DriverQueue
from orchestration.compute.host import Host
from orchestration.compute.host_keeper import PATIENCE, HostKeeper
from orchestration.compute.local import LocalCompute
from orchestration.compute.protocol import DriverHandle, DriverSource
from tests.support.spares import make_spec

OWN = "organization"
AddHost = Callable[..., Host]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / "data/scratch").mkdir(parents=True)
    return Settings(data=tmp_path / "data")


@pytest.fixture
def keeper(settings: Settings) -> HostKeeper:
    return HostKeeper(settings, DriverQueue(None, lambda: 0))


@pytest.fixture
def add_host(settings: Settings, keeper: HostKeeper) -> Iterator[AddHost]:
    """Each call adds a host that waits, for executions of this organization."""
    with ExitStack() as stack:

        def add(name: str, organization_id: str | None = None) -> Host:
            folder = settings.data / "scratch" / name
            folder.mkdir()
            for file in (SOCKET, READY):
                (folder / file).touch()
            spec = HostSpec(spark=build_spark_spec(settings), memory="1g", executions=9)
            process = stack.enter_context(subprocess.Popen(["true"]))
            host = Host(folder, spec, "", process, organization_id)
            keeper._spares.append(host)
            return host

        yield add


@pytest.mark.parametrize(
    ("reuses_driver", "sources"), [(True, [DriverSource.WARM, DriverSource.SPARE]), (False, [DriverSource.SPARE])]
)
def test_a_warm_driver_is_for_its_organization_and_for_jobs_that_reuse_drivers(
    settings: Settings, keeper: HostKeeper, add_host: AddHost, reuses_driver: bool, sources: list[DriverSource]
) -> None:
    add_host("unused")
    add_host("own", OWN)
    add_host("foreign", "another")
    spec = make_spec(settings, "next", "", organization_id=OWN, reuses_driver=reuses_driver)
    assert [source for _, source in keeper.find(spec, 0)] == sources


def test_only_one_execution_claims_a_host_and_none_gets_one_that_is_cancelled(
    settings: Settings, keeper: HostKeeper, add_host: AddHost
) -> None:
    claimed, retired, free = (add_host(name, OWN) for name in ("claimed", "retired", "free"))
    assert claimed.claim()
    assert not claimed.claim()
    keeper.retire("retired")
    spec = make_spec(settings, "next", "", organization_id=OWN)
    assert [host for host, _ in keeper.find(spec, 0)] == [free]
    (free.folder / SOCKET).unlink()
    assert not free.claim(), "it has an execution"
    assert retired.claim(), "to end it"


def test_a_host_that_another_organization_has_used_since_it_was_found_is_not_claimed(
    settings: Settings, keeper: HostKeeper, add_host: AddHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent, spare = add_host("silent"), add_host("spare")
    compute = LocalCompute(settings)
    compute.hosts = keeper
    asked: list[Host] = []

    def give(host: Host, *_: object) -> bool:
        """Get no answer for so long that another organization's execution comes and goes."""
        asked.append(host)
        spare.organization_id = "another"
        return False

    monkeypatch.setattr(LocalCompute, "_give", staticmethod(give))
    compute._take(DriverHandle(OWN, "next", 1), make_spec(settings, "next", "", organization_id=OWN), {}, 0)
    assert asked == [silent]


def test_an_execution_that_no_spare_will_fit_starts_a_process_at_once(
    settings: Settings, keeper: HostKeeper, add_host: AddHost
) -> None:
    plain = make_spec(settings, "plain", "")
    other = make_spec(settings, "other", "", spark=build_spark_spec(settings, ["iceberg"]))
    assert keeper.may_start(plain, 0), "nobody keeps spares"
    keeper._offer = HostSpec(spark=build_spark_spec(settings, ["delta"]), memory="1g")
    add_host("foreign", "another")
    assert not keeper.may_start(plain, 0)
    assert keeper.may_start(plain, PATIENCE + 1)
    assert keeper.may_start(other, 0)
