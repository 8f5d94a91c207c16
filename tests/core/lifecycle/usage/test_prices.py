"""The price table: what is shipped can be used, and what cannot is told with the place."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest

from core.infra.settings import Settings
from core.lifecycle.usage.bills import compute_costs
from core.lifecycle.usage.prices import SHIPPED, BadPrices, Rates, load_rates, read_table
from core.lifecycle.usage.usage import Usage

TABLE = """\
currency: EUR
providers:
  local:
    source: our own rack
    date: 2026-11-01
    regions:
      basement: {instances: {nuc: 0.031}, readPerGb: 0, writePerGb: 0.1, networkPerGb: 0.005}
"""


def test_an_instance_costs_nothing_by_default() -> None:
    assert load_rates(Settings().costs) == Rates()


def test_every_shipped_price_has_a_source_and_a_date() -> None:
    table = read_table(SHIPPED)
    assert set(table.providers) == {"local", "aws", "gcp", "azure"}
    for provider in table.providers.values():
        assert provider.source
        assert date(2024, 1, 1) < provider.date < date(2027, 1, 1)


def test_settings_name_provider_region_and_instances() -> None:
    found = load_rates(
        Settings(
            cloud_provider="aws",
            cloud_region="us-east-1",
            driver_instance_type="m5.large",
            executor_instance_type="m7g.large",
        ).costs
    )
    assert (found.driver_hour, found.executor_hour) == (Decimal("0.096"), Decimal("0.0816"))
    assert (found.write_gb, found.currency) == (Decimal("0.023"), "USD")


def test_a_table_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "prices.yaml").write_text(TABLE)
    found = load_rates(
        Settings(
            prices=tmp_path / "prices.yaml",
            cloud_region="basement",
            driver_instance_type="nuc",
            executor_instance_type="nuc",
        ).costs
    )
    assert (found.currency, found.driver_hour, found.network_gb) == ("EUR", Decimal("0.031"), Decimal("0.005"))


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"cloud_provider": "ibm"}, r"no provider 'ibm' \(SPINDLE_CLOUD_PROVIDER\); it has aws, azure, gcp, local"),
        ({"cloud_region": "mars"}, r"no region 'mars' \(SPINDLE_CLOUD_REGION\); it has local"),
        ({"driver_instance_type": "x"}, r"'x' \(SPINDLE_DRIVER_INSTANCE_TYPE\)"),
        ({"executor_instance_type": "x"}, r"'x' \(SPINDLE_EXECUTOR_INSTANCE_TYPE\)"),
        ({"prices": Path("/nowhere/prices.yaml")}, "cannot be read: No such file"),
    ],
)
def test_unknown_columns_of_the_table(settings: dict[str, object], sentence: str) -> None:
    with pytest.raises(BadPrices, match=sentence):
        load_rates(Settings(**settings).costs)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("0.031", "-1"), "providers.local.regions.basement.instances.nuc: .*greater than or equal to 0"),
        (("0.031", "'much'"), "instances.nuc"),
        (("EUR", "euros"), "currency"),
        (("readPerGb: 0, ", ""), "readPerGb: Field required"),
        (("readPerGb", "readPerGib"), "readPerGib: Extra inputs"),
        (("currency:", "currency: {"), "not valid YAML"),
    ],
)
def test_a_table_that_cannot_be_used(tmp_path: Path, change: tuple[str, str], sentence: str) -> None:
    (tmp_path / "prices.yaml").write_text(TABLE.replace(*change))
    with pytest.raises(BadPrices, match=sentence):
        read_table(tmp_path / "prices.yaml")


def test_each_part_is_rounded_once_half_to_even() -> None:
    usage = Usage(1, 9, 0, 0, 0, 0, 0, 0, 0, 1, 27)
    priced = compute_costs(usage, Rates(driver_hour=Decimal("0.0002"), executor_hour=Decimal("0.0002")))
    assert (priced.driver_cost, priced.executors_cost) == (0, 2), "0.5 and 1.5 millionths"
