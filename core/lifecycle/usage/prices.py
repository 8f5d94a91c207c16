"""The price table, and the prices that the settings select from it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel
from sqlalchemy.orm import Session

from core.errors import SpindleError
from core.infra.settings.drivers import CostSettings

SHIPPED = Path(__file__).with_name("prices.yaml")


class BadPrices(SpindleError):
    """The price table is invalid, or lacks the provider, region or instance type of the settings."""


def _to_text(value: object) -> object:
    """Convert a float of YAML to its shortest text, which is the decimal in the file."""
    return str(value) if isinstance(value, float) else value


Price = Annotated[Decimal, BeforeValidator(_to_text), Field(ge=0, le=1_000_000, allow_inf_nan=False)]


class _PriceModel(BaseModel):
    model_config = ConfigDict(frozen=True, alias_generator=to_camel, extra="forbid")


class Region(_PriceModel):
    """Prices of one region: per hour by instance type, and per GB (10^9 bytes)."""

    instances: dict[str, Price]
    read_per_gb: Price
    write_per_gb: Price
    network_per_gb: Price


class Provider(_PriceModel):
    source: str
    date: date
    regions: dict[str, Region]


class PriceTable(_PriceModel):
    """The prices of all providers in one currency."""

    currency: Annotated[str, Field(pattern="^[A-Z]{3}$")]
    providers: dict[str, Provider]


@dataclass(frozen=True, slots=True)
class Rates:
    """The prices that this instance pays: per hour of a driver's and an executor's machine, and per GB."""

    provider: str = "local"
    region: str = "local"
    currency: str = "USD"
    driver_instance: str = "local"
    executor_instance: str = "local"
    driver_hour: Decimal = Decimal(0)
    executor_hour: Decimal = Decimal(0)
    read_gb: Decimal = Decimal(0)
    write_gb: Decimal = Decimal(0)
    network_gb: Decimal = Decimal(0)


def load_rates(settings: CostSettings) -> Rates:
    """Return the prices for the provider, region and instance types of the settings. Raises BadPrices.

    A table is read once in a process.
    """
    machines = (settings.driver_instance_type, settings.executor_instance_type)
    return _select_rates(settings.prices or SHIPPED, settings.cloud_provider, settings.cloud_region, *machines)


@lru_cache
def _select_rates(path: Path, provider: str, region: str, driver: str, executor: str) -> Rates:
    table = read_table(path)
    _check_known("provider", provider, table.providers)
    _check_known("region", region, table.providers[provider].regions)
    prices = table.providers[provider].regions[region]
    _check_known("driver_instance_type", driver, prices.instances)
    _check_known("executor_instance_type", executor, prices.instances)
    return Rates(
        provider=provider,
        region=region,
        currency=table.currency,
        driver_instance=driver,
        executor_instance=executor,
        driver_hour=prices.instances[driver],
        executor_hour=prices.instances[executor],
        read_gb=prices.read_per_gb,
        write_gb=prices.write_per_gb,
        network_gb=prices.network_per_gb,
    )


def get_rates(session: Session) -> Rates:
    """Return the prices of the instance that the session belongs to."""
    return load_rates(session.info["settings"].costs)


def read_table(path: Path) -> PriceTable:
    """Read a price table. Raises BadPrices that names the file and the position in it."""
    try:
        content: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
        return PriceTable.model_validate(content)
    except OSError as error:
        raise BadPrices(f"The price table {path} cannot be read: {error.strerror}.") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise BadPrices(f"The price table {path} is not valid YAML: {error}") from error
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
        raise BadPrices(f"The price table {path} cannot be used: {problems}") from error


def _check_known(what: str, name: str, known: Collection[str]) -> None:
    if name in known:
        return
    setting = f"SPINDLE_{what.upper()}" if what.endswith("_type") else f"SPINDLE_CLOUD_{what.upper()}"
    raise BadPrices(f"The price table has no {what} '{name}' ({setting}); it has {', '.join(sorted(known)) or 'none'}.")
