"""The time of drivers that belongs to no execution; they wait and work without processes."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import pytest

from core.definitions.identity.organizations import create_organization
from core.errors import Unavailable
from core.infra.settings import Settings
from core.lifecycle.usage.overhead import Overhead, sum_overhead
from core.lifecycle.usage.periods import Period
from core.tables import now
from driver.host_folder import READY, SOCKET, HostSpec
from orchestration.compute.host import Host
from orchestration.compute.host_keeper import OverheadMeter
from pipelines.contract.request import SparkSpec
from tests.support.shop import Shop

AWS = {"cloud_provider": "aws", "cloud_region": "us-east-1", "driver_instance_type": "m5.large"}
HOUR = timedelta(hours=1)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data=tmp_path / "data", executor_instance_type="m5.large", **AWS)  # type: ignore[arg-type]


@pytest.fixture
def add_host(tmp_path: Path) -> Iterator[Callable[[str], Host]]:
    """Each call returns a host that waits, whose process does nothing."""
    with ExitStack() as stack:

        def add(name: str) -> Host:
            (tmp_path / name).mkdir()
            (tmp_path / name / SOCKET).touch()
            process = stack.enter_context(subprocess.Popen(["true"]))
            return Host(tmp_path / name, HostSpec(spark=SparkSpec()), "", process)

        yield add


def load(shop: Shop, organization_id: str, start: timedelta = 2 * HOUR) -> Overhead:
    with shop.database.read() as session:
        return sum_overhead(session, organization_id, Period(now() - start, now() + HOUR))


def test_start_and_idle_time_are_the_organizations_and_that_of_an_unused_spare_is_nobodys(
    shop: Shop, add_host: Callable[[str], Host]
) -> None:
    meter, host, unused = OverheadMeter(shop.database), add_host("driver"), add_host("unused")
    meter.measure([host, unused], 9.5)  # Spark starts
    for each in (host, unused):
        (each.folder / READY).touch()
    meter.measure([host, unused], 100)  # both wait for their first execution
    (host.folder / SOCKET).unlink()
    host.organization_id = shop.organization_id
    meter.measure([host, unused], 30)  # the first execution
    meter.store()
    assert load(shop, shop.organization_id) == Overhead(9500, 0, 253)
    (host.folder / SOCKET).touch()
    meter.measure([host, unused], 60)
    meter.store()
    meter.measure([unused], 7)  # the driver has been killed
    meter.store()
    assert load(shop, shop.organization_id) == Overhead(9500, 60_000, 253 + 1600)
    with shop.database.write() as session:
        other = create_organization(session, "other").id
    assert load(shop, other) == load(shop, shop.organization_id, -HOUR) == Overhead()


def test_time_is_kept_while_the_database_is_away(
    shop: Shop, add_host: Callable[[str], Host], monkeypatch: pytest.MonkeyPatch
) -> None:
    meter, host = OverheadMeter(shop.database), add_host("driver")
    host.organization_id = shop.organization_id
    meter.measure([host], 2)
    with monkeypatch.context() as patched:
        patched.setattr(shop.database, "write", lambda **_: _refuse())
        with pytest.raises(Unavailable):
            meter.store()
    meter.store()
    assert load(shop, shop.organization_id).idle_ms == 2000


def _refuse() -> None:
    raise Unavailable("The database is away.")
