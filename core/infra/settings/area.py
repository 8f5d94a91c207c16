"""What an area of the settings is."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlsplit

from pydantic import BaseModel, BeforeValidator, ConfigDict


class Area(BaseModel):
    """The settings of one area, read from variables: `spark_master` sets `master` of `SparkSettings`.

    The docstring of an area is its heading in docs/settings.md. An alias is the variable of a field, in lower case and
    without SPINDLE_.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)


def _split(value: object) -> object:
    return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value


CommaSeparated = Annotated[tuple[str, ...], BeforeValidator(_split)]


def check_address(value: str | None, variable: str) -> str | None:
    """Return the value; raise ValueError where it is no address of a web server."""
    if value is not None and urlsplit(value).scheme not in ("http", "https"):
        raise ValueError(f"{variable}: '{value}' is not an address such as https://trino:8443.")
    return value
