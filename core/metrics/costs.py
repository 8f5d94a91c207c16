"""Usage times prices: each part rounded once, half to even, to a millionth; a total is the exact sum of its parts."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal

from core.metrics.prices import Rates
from core.metrics.usage import GB, Usage

MILLION = 10**6
SECONDS_PER_HOUR = 3600


@dataclass(frozen=True, slots=True)
class Costs:
    """In millionths of the currency."""

    driver_cost: int
    executors_cost: int
    read_cost: int
    write_cost: int
    network_cost: int


def costs(usage: Usage, rates: Rates) -> Costs:
    """The driver's machine for as long as the execution took, its executors' for as long as each was there."""
    return Costs(
        driver_cost=_millionths(usage.seconds, SECONDS_PER_HOUR, rates.driver_hour),
        executors_cost=_millionths(usage.executor_seconds, SECONDS_PER_HOUR, rates.executor_hour),
        read_cost=_millionths(usage.bytes_read, GB, rates.read_gb),
        write_cost=_millionths(usage.bytes_written, GB, rates.write_gb),
        network_cost=_millionths(usage.network_bytes, GB, rates.network_gb),
    )


def _millionths(amount: int, per: int, price: Decimal) -> int:
    return int((amount * price * MILLION / per).to_integral_value(ROUND_HALF_EVEN))
