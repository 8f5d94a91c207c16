"""enrichMatchingScore: compare an extracted product with the expected one."""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import TYPE_CHECKING

from pydantic import Field

from pipelines.errors import RunError
from pipelines.language.arguments import Arguments
from pipelines.language.columns import Columns, quote_column
from pipelines.language.parameters import parse_column_reference
from pipelines.planning.stage import TableStage, register_stage
from pipelines.plugin import Plugin

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from pipelines.contract.context import RunContext

plugin = Plugin(description="Score how well rows match a product.", modules=(__name__,))

SCORE = "matching_score"
_EANS = ("ean", "ean13", "ean8", "gtin", "gtin8", "gtin12", "gtin13", "gtin14", "upc", "barcode")


class MatchingFields(Arguments):
    """The column of the expected EAN, and the prefix of the extracted columns."""

    input_ean_field: str = Field(min_length=1)
    iextract_prefix: str = Field(min_length=1)


@register_stage("enrichMatchingScore")
class EnrichMatchingScore(TableStage):
    """Add `matching_score`, from 0 to 1: how well the extracted columns match the expected EAN and columns.

    Extracted columns have names that begin with `iextract_prefix`. If both sides have an EAN (`<prefix>ean`, `gtin`,
    `gtin13`, `upc`, `barcode` or similar), it decides: the score is 1 if an extracted EAN equals the one in
    `input_ean_field`, otherwise 0. Only digits count, without leading zeros.

    Without an EAN, every extracted column `<prefix>NAME` is compared with the column NAME: the number of common words
    divided by the number of all words, in lower case. The score is the average over the pairs in which both columns
    have a value. It is at most 0.9, since without an EAN a match is uncertain, and 0 without any pair.
    """

    example = """
pipeline:
  - {stage: load_csv, args: ["${FOLDER}/reviews.csv"]}
  - {stage: enrichMatchingScore, args: [{input_ean_field: ean, iextract_prefix: found_}]}
"""

    rest = "fields"
    fields: tuple[MatchingFields, ...] = Field(min_length=1, max_length=1)

    def describe(self) -> str:
        return f"{self._ean} {self.fields[0].iextract_prefix}"

    def list_references(self) -> tuple[str, ...]:
        return (self._ean,)

    def infer_columns(self, before: Columns) -> Columns:
        return before.with_columns(((SCORE, "double"),))

    def apply(self, rows: DataFrame, context: RunContext) -> DataFrame:
        from pyspark.sql import functions as F

        prefix = self.fields[0].iextract_prefix
        found = {name[len(prefix) :]: name for name in rows.columns if name.startswith(prefix) and name != prefix}
        if not found:
            raise RunError(f"no column begins with '{prefix}'; there are {', '.join(rows.columns)}")
        eans = [_extract_digits(name) for field, name in found.items() if field.replace("_", "").casefold() in _EANS]
        pairs = [(field, name) for field, name in found.items() if field in rows.columns and field != self._ean]
        wanted = _extract_digits(self._ean)
        said = F.array_compact(F.array(*eans)) if eans else F.array().cast("array<string>")
        by_ean = F.array_contains(said, wanted).cast("double")
        decided = wanted.isNotNull() & (F.size(said) > 0)
        return rows.withColumn(SCORE, F.when(decided, by_ean).otherwise(_compute_similarity(pairs)))

    @property
    def _ean(self) -> str:
        name = self.fields[0].input_ean_field
        return parse_column_reference(name) or name


def _extract_digits(name: str) -> Column:
    """Return the digits of a column without leading zeros; null without digits."""
    from pyspark.sql import functions as F

    digits = F.regexp_replace(_cast_to_text(name), "[^0-9]", "")
    return F.nullif(F.ltrim(digits, F.lit("0")), F.lit(""))


def _compute_similarity(pairs: list[tuple[str, str]]) -> Column:
    """Return the average share of common words over the pairs with two values; at most 0.9."""
    from pyspark.sql import functions as F

    if not pairs:
        return F.lit(0.0)
    shares = [_compute_overlap(_split_words(one), _split_words(other)) for one, other in pairs]
    count = reduce(add, (share.isNotNull().cast("int") for share in shares))
    total = reduce(add, (F.coalesce(share, F.lit(0.0)) for share in shares))
    return F.least(F.coalesce(F.try_divide(total, count), F.lit(0.0)), F.lit(0.9))


def _compute_overlap(one: Column, other: Column) -> Column:
    """Return the number of common words divided by the number of all words; null if a side has no words."""
    from pyspark.sql import functions as F

    common, either = F.size(F.array_intersect(one, other)), F.size(F.array_union(one, other))
    return F.when((F.size(one) > 0) & (F.size(other) > 0), common / either)


def _split_words(name: str) -> Column:
    from pyspark.sql import functions as F

    words = F.split(F.lower(F.coalesce(_cast_to_text(name), F.lit(""))), r"[^\p{L}\p{N}]+")
    return F.array_distinct(F.array_remove(words, ""))


def _cast_to_text(name: str) -> Column:
    from pyspark.sql import functions as F

    return F.col(quote_column(name)).cast("string")
