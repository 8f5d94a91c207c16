"""The price table, and the prices that this instance runs at."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel
from sqlalchemy.orm import Session

from core.errors import SpindleError
from core.infra.settings import Settings

SHIPPED = Path(__file__).parents[1] / "prices.yaml"


class BadPrices(SpindleError):
    """The price table cannot be used as it is, or has no price for what the settings name."""


def _exact(value: object) -> object:
    """YAML knows no decimals; the shortest text of its float is what stands in the file."""
    return str(value) if isinstance(value, float) else value


Price = Annotated[Decimal, BeforeValidator(_exact), Field(ge=0, le=1_000_000, allow_inf_nan=False)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, alias_generator=to_camel, extra="forbid")


class Region(_Part):
    """Prices per hour by instance type, and per GB (10^9 bytes)."""

    instances: dict[str, Price]
    read_per_gb: Price
    write_per_gb: Price
    network_per_gb: Price


class Provider(_Part):
    source: str
    date: date
    regions: dict[str, Region]


class PriceTable(_Part):
    """Every provider's prices, in one currency."""

    currency: Annotated[str, Field(pattern="^[A-Z]{3}$")]
    providers: dict[str, Provider]


@dataclass(frozen=True, slots=True)
class Rates:
    """What this instance pays: per hour of a driver's and an executor's machine, and per GB."""

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


FREE = Rates()


def rates(settings: Settings) -> Rates:
    """The prices of the provider, region and instance types that the settings name; raises BadPrices."""
    table = read_table(settings.prices or SHIPPED)
    provider = _named("provider", settings.cloud_provider, table.providers)
    region = _named("region", settings.cloud_region, table.providers[provider].regions)
    prices = table.providers[provider].regions[region]
    driver = _named("driver_instance_type", settings.driver_instance_type, prices.instances)
    executor = _named("executor_instance_type", settings.executor_instance_type, prices.instances)
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


def rates_of(session: Session) -> Rates:
    """The prices of the instance whose database this is."""
    return session.info.get("rates", FREE)


def read_table(path: Path) -> PriceTable:
    """Raises BadPrices with the file and the place in it."""
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


def _named(what: str, name: str, known: Collection[str]) -> str:
    if name in known:
        return name
    setting = f"SPINDLE_{what.upper()}" if what.endswith("_type") else f"SPINDLE_CLOUD_{what.upper()}"
    raise BadPrices(
        f"The price table knows no {what} '{name}' ({setting}); it has {', '.join(sorted(known)) or 'none'}."
    )
