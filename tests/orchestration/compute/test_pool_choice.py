"""Which drivers with Spark an execution may take; the drivers are folders without processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from core.infra.pidfile import hold_pidfile
from core.infra.settings import Settings
from core.lifecycle.executions.spec import build_spark_spec
from driver.host_folder import HOST_FILE, READY, HostSpec
from orchestration.compute.host_keeper import KEEPER, OFFER
from orchestration.compute.hosts import PATIENCE, DriverPools
from orchestration.compute.protocol import DriverSource
from tests.support.spares import make_spec

OWN = "organization"


@pytest.fixture
def settings(tmp_path: Path) -> Iterator[Settings]:
    """Settings of a service whose keeper is alive."""
    (tmp_path / "data/scratch").mkdir(parents=True)
    with hold_pidfile(tmp_path / "data" / KEEPER):
        yield Settings(data=tmp_path / "data")


def add_driver(settings: Settings, name: str, organization_id: str | None = None) -> None:
    folder = settings.data / "scratch" / f"spare-{name}"
    folder.mkdir()
    offer = HostSpec(spark=build_spark_spec(settings), memory="1g", organization_id=organization_id)
    (folder / HOST_FILE).write_text(offer.model_dump_json(by_alias=True))
    (folder / READY).touch()


@pytest.mark.parametrize(
    ("reuses_driver", "sources"), [(True, [DriverSource.WARM, DriverSource.SPARE]), (False, [DriverSource.SPARE])]
)
def test_a_warm_driver_is_for_its_organization_and_for_jobs_that_reuse_drivers(
    settings: Settings, reuses_driver: bool, sources: list[DriverSource]
) -> None:
    add_driver(settings, "unused")
    add_driver(settings, "own", OWN)
    add_driver(settings, "foreign", "another")
    spec = make_spec(settings, "next", "", organization_id=OWN, reuses_driver=reuses_driver)
    assert [source for _, source in DriverPools(settings).find(spec, 0)] == sources


def test_an_execution_that_no_spare_will_fit_starts_a_process_at_once(settings: Settings) -> None:
    pools, plain = DriverPools(settings), make_spec(settings, "plain", "")
    other = make_spec(settings, "other", "", spark=build_spark_spec(settings, ["iceberg"]))
    assert not pools.may_start(other, 0), "the keeper has not said yet what it keeps"
    offer = HostSpec(spark=build_spark_spec(settings, ["delta"]), memory="1g")
    (settings.data / OFFER).write_text(offer.model_dump_json(by_alias=True))
    add_driver(settings, "foreign", "another")
    assert not pools.may_start(plain, 0)
    assert pools.may_start(plain, PATIENCE + 1)
    assert pools.may_start(other, 0)
