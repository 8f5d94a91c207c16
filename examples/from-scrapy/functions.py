"""Row functions of the examples: `spindle run 13-python.yaml --transforms functions.py`."""

from decimal import Decimal
from typing import Annotated, TypedDict


class Offer(TypedDict):
    sku: str
    net: Annotated[Decimal, "decimal(10,2)"]


def drop_free(row, *, tax="0.19") -> Offer | None:
    """Return the price without tax, exactly; a product without a price gives no row."""
    if row["price"] is None:
        return None
    return {"sku": row["sku"], "net": round(row["price"] / (1 + Decimal(tax)), 2)}
