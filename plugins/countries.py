"""filter_country: select rows by country, in any spelling."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any

import pycountry
from pydantic import AfterValidator, Field

from pipelines.errors import ArgumentError
from pipelines.language.columns import quote_column
from pipelines.language.names import describe_unknown, suggest, truncate_name
from pipelines.language.parameters import parse_column_reference
from pipelines.planning.stage import TableStage, register_stage
from pipelines.plugin import Plugin

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pipelines.contract.context import RunContext

plugin = Plugin(description="Select rows by country.", modules=(__name__,))

# common names that ISO 3166 does not have
_COLLOQUIAL = {
    "uk": "GB",
    "great britain": "GB",
    "britain": "GB",
    "england": "GB",
    "scotland": "GB",
    "wales": "GB",
    "u.k.": "GB",
    "u.s.": "US",
    "u.s.a.": "US",
    "america": "US",
    "united states of america": "US",
    "holland": "NL",
    "the netherlands": "NL",
    "russia": "RU",
    "turkey": "TR",
    "czech republic": "CZ",
    "ivory coast": "CI",
    "cape verde": "CV",
    "swaziland": "SZ",
    "macedonia": "MK",
    "burma": "MM",
    "brunei": "BN",
    "uae": "AE",
    "palestine": "PS",
}


_NAMES = ("alpha_2", "alpha_3", "name", "official_name", "common_name")


@cache
def _load_spellings() -> dict[str, str]:
    """Return the two-letter codes of ISO 3166 by all known spellings in lower case."""
    found = dict(_COLLOQUIAL)
    countries: Iterable[Any] = pycountry.countries
    for country in countries:
        names = (getattr(country, field, None) for field in _NAMES)
        found.update({name.casefold(): country.alpha_2 for name in names if name})
    return found


def _validate_country(text: str) -> str:
    if "${" not in text and text.strip().casefold() not in _load_spellings():
        names = [name.title() for name in _load_spellings() if len(name) > 3]
        meant = describe_unknown("country", text, names) if suggest(text.casefold(), map(str.casefold, names)) else None
        message = meant or f"unknown country '{truncate_name(text)}'; write its English name or its code of ISO 3166"
        raise ArgumentError(message, "unknown-value")
    return text


@register_stage("filter_country")
class FilterCountry(TableStage):
    """Keep the rows whose column contains one of the countries.

    A country is recognized by its English name in ISO 3166, its code of two or three letters, or a common name (UK,
    USA, Holland), in upper or lower case. All other rows are dropped.
    """

    example = """
pipeline:
  - {stage: load_csv, args: ["${FOLDER}/reviews.csv"]}
  - {stage: filter_country, args: [country, Germany, gbr, us]}
"""

    positional = ("column",)
    rest = "countries"
    column: str = Field(min_length=1)
    countries: tuple[Annotated[str, AfterValidator(_validate_country)], ...] = Field(min_length=1)

    def describe(self) -> str:
        return f"{self.list_references()[0]} {', '.join(self.countries)}"

    def list_references(self) -> tuple[str, ...]:
        return (parse_column_reference(self.column) or self.column,)

    def apply(self, rows: DataFrame, context: RunContext) -> DataFrame:
        from pyspark.sql import functions as F

        wanted = {_load_spellings()[country.strip().casefold()] for country in self.countries}
        spelled = sorted(name for name, code in _load_spellings().items() if code in wanted)
        name = quote_column(self.list_references()[0])
        return rows.where(F.lower(F.trim(F.col(name).cast("string"))).isin(spelled))
