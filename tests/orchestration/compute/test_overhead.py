"""The time of drivers that belongs to no execution; the drivers are folders without processes."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from core.definitions.identity.organizations import create_organization
from core.errors import Unavailable
from core.infra.settings import Settings
from core.lifecycle.usage.overhead import Overhead, sum_overhead
from core.lifecycle.usage.periods import Period
from core.tables import now
from driver.host_folder import HOST_FILE, READY, TAKEN, HostSpec
from orchestration.compute.overhead import OverheadMeter
from pipelines.contract.request import SparkSpec
from tests.support.shop import Shop

AWS = {"cloud_provider": "aws", "cloud_region": "us-east-1", "driver_instance_type": "m5.large"}
HOUR = timedelta(hours=1)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data=tmp_path / "data", executor_instance_type="m5.large", **AWS)  # type: ignore[arg-type]


def offer(folder: Path, organization_id: str | None) -> None:
    folder.mkdir(exist_ok=True)
    spec = HostSpec(spark=SparkSpec(), memory="1g", organization_id=organization_id)
    (folder / HOST_FILE).write_text(spec.model_dump_json(by_alias=True))


def load(shop: Shop, organization_id: str, start: timedelta = 2 * HOUR) -> Overhead:
    with shop.database.read() as session:
        return sum_overhead(session, organization_id, Period(now() - start, now() + HOUR))


def test_start_and_idle_time_are_the_organizations_and_that_of_an_unused_spare_is_nobodys(
    shop: Shop, tmp_path: Path
) -> None:
    meter, folder, unused = OverheadMeter(shop.database), tmp_path / "driver", tmp_path / "unused"
    for each in (folder, unused):
        offer(each, None)
    meter.measure([folder, unused], 9.5)  # Spark starts
    for each in (folder, unused):
        (each / READY).touch()
    meter.measure([folder, unused], 100)  # both wait for their first execution
    (folder / TAKEN).touch()
    offer(folder, shop.organization_id)
    meter.measure([folder, unused], 30)  # the first execution
    meter.store()
    assert load(shop, shop.organization_id) == Overhead(9500, 0, 253)
    (folder / TAKEN).unlink()
    meter.measure([folder, unused], 60)
    meter.store()
    meter.measure([unused], 7)  # the driver has been killed
    meter.store()
    assert load(shop, shop.organization_id) == Overhead(9500, 60_000, 253 + 1600)
    with shop.database.write() as session:
        other = create_organization(session, "other").id
    assert load(shop, other) == load(shop, shop.organization_id, -HOUR) == Overhead()


def test_time_is_kept_while_the_database_is_away(shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    meter, folder = OverheadMeter(shop.database), tmp_path / "driver"
    offer(folder, shop.organization_id)
    meter.measure([folder], 2)
    with monkeypatch.context() as patched:
        patched.setattr(shop.database, "write", lambda **_: _refuse())
        with pytest.raises(Unavailable):
            meter.store()
    meter.store()
    assert load(shop, shop.organization_id).idle_ms == 2000


def _refuse() -> None:
    raise Unavailable("The database is away.")
