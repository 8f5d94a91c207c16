"""Row transforms about the weather."""

from typing import Any, TypedDict

from spindle import register_row_transform


class Converted(TypedDict):
    place: str
    fahrenheit: float
    force: int


@register_row_transform
def to_fahrenheit(row: dict[str, Any], digits: int = 0) -> Converted:
    """Convert degrees."""
    fahrenheit = round(row["degrees"] * 1.8 + 32, digits)
    return {"place": row["place"], "force": row["force"], "fahrenheit": fahrenheit}
