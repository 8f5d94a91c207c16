"""enrichMatchingScore: whether what was extracted is the product that was looked for."""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import TYPE_CHECKING

from pydantic import Field

from pipelines.errors import RunError
from pipelines.language.arguments import Arguments
from pipelines.language.columns import Columns
from pipelines.language.parameters import parse_column_reference
from pipelines.planning.stage import TableStage, register_stage
from pipelines.stages.dataframes import quote_column

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from pipelines.planning.context import RunContext

SCORE = "matching_score"
_EANS = ("ean", "ean13", "ean8", "gtin", "gtin8", "gtin12", "gtin13", "gtin14", "upc", "barcode")


class Matching(Arguments):
    """Where the wanted EAN is, and what the names of the extracted columns begin with."""

    input_ean_field: str = Field(min_length=1)
    iextract_prefix: str = Field(min_length=1)


@register_stage("enrichMatchingScore")
class EnrichMatchingScore(TableStage):
    """Adds `matching_score`, from 0 to 1: how well extracted columns match the EAN and the fields that were given.

    Extracted columns are those that begin with `iextract_prefix`. An extracted EAN (`<prefix>ean`, `gtin`, `gtin13`,
    `upc`, `barcode` and the like) decides: the score is 1 when one of them is the EAN of `input_ean_field`, 0 when
    there are some and none is. EANs are compared by their digits, without leading zeros. Where none was extracted, or
    none was given, each extracted column `<prefix>NAME` is compared with the column NAME: the words that both have
    over the words that either has, in lower case. The score is the average over the pairs in which both have a value,
    at most 0.9, since without the EAN nothing is certain; 0 where there is nothing to compare.
    """

    example = """
pipeline:
  - {stage: load_csv, args: ["${FOLDER}/reviews.csv"]}
  - {stage: enrichMatchingScore, args: [{input_ean_field: ean, iextract_prefix: found_}]}
"""

    rest = "fields"
    fields: tuple[Matching, ...] = Field(min_length=1, max_length=1)

    def describe(self) -> str:
        return f"{self._ean()} {self.fields[0].iextract_prefix}"

    def list_references(self) -> tuple[str, ...]:
        return (self._ean(),)

    def infer_columns(self, before: Columns) -> Columns:
        return before.with_columns(((SCORE, "double"),))

    def apply(self, rows: DataFrame, context: RunContext) -> DataFrame:
        from pyspark.sql import functions as F

        prefix = self.fields[0].iextract_prefix
        found = {name[len(prefix) :]: name for name in rows.columns if name.startswith(prefix) and name != prefix}
        if not found:
            raise RunError(f"no column begins with '{prefix}'; there are {', '.join(rows.columns)}")
        eans = [_digits(name) for field, name in found.items() if field.replace("_", "").casefold() in _EANS]
        pairs = [(field, name) for field, name in found.items() if field in rows.columns and field != self._ean()]
        wanted = _digits(self._ean())
        said = F.array_compact(F.array(*eans)) if eans else F.array().cast("array<string>")
        by_ean = F.array_contains(said, wanted).cast("double")
        decided = wanted.isNotNull() & (F.size(said) > 0)
        return rows.withColumn(SCORE, F.when(decided, by_ean).otherwise(_similarity(pairs)))

    def _ean(self) -> str:
        name = self.fields[0].input_ean_field
        return parse_column_reference(name) or name


def _digits(name: str) -> Column:
    """The digits of a column without leading zeros; null where there are none."""
    from pyspark.sql import functions as F

    digits = F.regexp_replace(_text(name), "[^0-9]", "")
    return F.nullif(F.ltrim(digits, F.lit("0")), F.lit(""))


def _similarity(pairs: list[tuple[str, str]]) -> Column:
    """The average, over the pairs with two values, of the share of common words; at most 0.9."""
    from pyspark.sql import functions as F

    if not pairs:
        return F.lit(0.0)
    shares = [_share(_words(one), _words(other)) for one, other in pairs]
    count = reduce(add, (share.isNotNull().cast("int") for share in shares))
    total = reduce(add, (F.coalesce(share, F.lit(0.0)) for share in shares))
    return F.least(F.coalesce(F.try_divide(total, count), F.lit(0.0)), F.lit(0.9))


def _share(one: Column, other: Column) -> Column:
    """Words that both have over words that either has; null where a side has none."""
    from pyspark.sql import functions as F

    common, either = F.size(F.array_intersect(one, other)), F.size(F.array_union(one, other))
    return F.when((F.size(one) > 0) & (F.size(other) > 0), common / either)


def _words(name: str) -> Column:
    from pyspark.sql import functions as F

    words = F.split(F.lower(F.coalesce(_text(name), F.lit(""))), r"[^\p{L}\p{N}]+")
    return F.array_distinct(F.array_remove(words, ""))


def _text(name: str) -> Column:
    from pyspark.sql import functions as F

    return F.col(quote_column(name)).cast("string")
