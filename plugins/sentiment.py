"""sentiment, sentiment_monthly and aggregatesentiment: rate how positive English texts are."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from functools import cache
from itertools import accumulate
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from pydantic import Field
from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer  # pyright: ignore[reportMissingTypeStubs]

from pipelines.contract.workers import Tools
from pipelines.errors import RunError
from pipelines.extract.rows import Row
from pipelines.language.columns import Columns, quote_column
from pipelines.language.parameters import parse_column_reference
from pipelines.planning.stage import Capabilities, RowStage, TableStage, register_stage
from pipelines.plugin import Plugin

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

    from pipelines.contract.context import RunContext

plugin = Plugin(description="Rate how positive English texts are.", modules=(__name__,))

SCORE, LABEL = "sentiment_score", "sentiment_label"
_THRESHOLD = 0.05  # VADER's own: https://github.com/cjhutto/vaderSentiment#about-the-scoring
_LONGEST = 10_000  # characters: longer texts take longer, but hardly change the score
_DATES = ("date", "datum", "day", "month", "time", "timestamp", "created", "createdat", "published", "publishedat")


class _Analyzer(SentimentIntensityAnalyzer):
    def sentiment_valence(self, valence: Any, sentitext: Any, item: str, i: int, sentiments: Any) -> Any:
        """Rate a word with its neighbors only: VADER reads five of them, but converts the whole text for every word."""
        first = max(i - 3, 0)
        words = sentitext.words_and_emoticons[first : i + 3]
        near = SimpleNamespace(words_and_emoticons=words, is_cap_diff=sentitext.is_cap_diff)
        return super().sentiment_valence(valence, near, item, i - first, sentiments)


@cache
def _get_analyzer() -> Any:
    return _Analyzer()


def compute_score(text: str) -> float:
    """Return VADER's compound score of a text, from -1 to 1."""
    return float(_get_analyzer().polarity_scores(_truncate_text(text))["compound"])


def _build_score_column(texts: Column) -> Column:
    """Return the score of each text, null where there is no text."""
    import pyarrow as pa
    from pyspark.sql import functions as F

    arrow_udf: Any = F.arrow_udf  # its stubs know only the decorator without a type
    _compute_scores.__annotations__ = {"texts": pa.Array, "return": pa.Array}  # Spark cannot look `pa` up itself
    return arrow_udf(_compute_scores, "double")(texts)


def _compute_scores(texts: pa.Array) -> pa.Array:
    import pyarrow as pa

    stripped = (text.strip() if text else "" for text in texts.to_pylist())
    return pa.array([compute_score(text) if text else None for text in stripped], pa.float64())


def _truncate_text(text: str) -> str:
    """Return the beginning of a text, in which an emoji is as long as its name in VADER."""
    text = text[:_LONGEST]
    if text.isascii():
        return text
    words = _get_analyzer().emojis
    return text[: bisect_right([*accumulate(len(words.get(each, each)) for each in text)], _LONGEST)]


def get_label(value: float) -> str:
    return "positive" if value >= _THRESHOLD else "negative" if value <= -_THRESHOLD else "neutral"


def _resolve_name(reference: str) -> str:
    return parse_column_reference(reference) or reference


@register_stage("sentiment")
class Sentiment(RowStage):
    """Add `sentiment_score`, from -1 (negative) to 1 (positive), and `sentiment_label` (positive, neutral, negative).

    The score is computed by VADER, a lexicon of English words, emoticons and slang with rules for negation and
    emphasis; no text leaves the machine. Texts in other languages score near 0. The label is positive from 0.05,
    negative from -0.05 downwards. Both are null without a text. Only the first 10,000 characters count, with an emoji
    as long as its name. A sentence takes about 0.1 ms, a long review 1 ms.
    """

    example = """
pipeline:
  - {stage: load_csv, args: ["${FOLDER}/reviews.csv"]}
  - {stage: sentiment, args: [text]}
"""

    positional = ("column",)
    column: str = Field(min_length=1)

    def describe(self) -> str:
        return _resolve_name(self.column)

    def list_references(self) -> tuple[str, ...]:
        return (_resolve_name(self.column),)

    def infer_columns(self, before: Columns) -> Columns:
        return before.with_columns(((SCORE, "double"), (LABEL, "string")))

    def work(self, tools: Tools) -> Callable[[Row], Iterable[Row]]:
        name = _resolve_name(self.column)

        def rate(row: Row) -> Iterable[Row]:
            value = row.value(name)
            text = "" if value is None else str(value).strip()
            found = compute_score(text) if text else None
            yield row.with_values({SCORE: found, LABEL: None if found is None else get_label(found)})

        return rate


@register_stage("sentiment_monthly")
class SentimentMonthly(TableStage):
    """Replace the rows by one per month, with the average score and the number of rows of each label.

    The columns are `month` (2026-01), `rows`, `sentiment_score` (the average), `positive`, `neutral` and `negative`
    (counts). Texts are rated as in sentiment. `date` is the column of dates; by default, the first column of a date
    type, or else the first with a typical name (date, month, published, created_at). Dates in texts follow ISO 8601 or
    `dateFormat`, a pattern of Spark such as "dd.MM.yyyy". Rows without a valid date have the month null.
    """

    example = """
pipeline:
  - {stage: load_csv, args: ["${FOLDER}/reviews.csv"]}
  - {stage: sentiment_monthly, args: [text, date]}
"""

    positional = ("column", "date", "dateFormat")
    column: str = Field(min_length=1)
    date: str | None = Field(None, min_length=1)
    date_format: str | None = Field(None, alias="dateFormat", min_length=1)

    def describe(self) -> str:
        return ", ".join(self.list_references())

    def list_references(self) -> tuple[str, ...]:
        return tuple(_resolve_name(each) for each in (self.column, self.date) if each)

    def infer_columns(self, before: Columns) -> Columns:
        return Columns((("month", "string"), *_TOTALS))

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(drops_engine_columns=True)

    def apply(self, rows: DataFrame, context: RunContext) -> DataFrame:
        from pyspark.sql import functions as F

        date = _build_column(_resolve_name(self.date) if self.date else _find_date_column(rows))
        text = _build_column(_resolve_name(self.column)).cast("string")
        read = F.try_to_timestamp(date.cast("string"), F.lit(self.date_format) if self.date_format else None)
        rated = rows.select(F.date_format(read, "yyyy-MM").alias("month"), _build_score_column(text).alias(SCORE))
        return rated.groupBy("month").agg(*_build_totals()).withColumn("_ordinal", _build_month_ordinal())


@register_stage("aggregatesentiment")
class AggregateSentiment(TableStage):
    """Replace the rows by one per group, with the average score and the number of rows of each label.

    Rows with equal values in the given columns are a group. These columns are followed by `rows`, `sentiment_score`
    (the average), `positive`, `neutral` and `negative` (counts). The columns of sentiment are required. Groups are in
    the order of their first rows.
    """

    example = """
pipeline:
  - {stage: load_csv, args: ["${FOLDER}/reviews.csv"]}
  - {stage: sentiment, args: [text]}
  - {stage: aggregatesentiment, args: [product]}
"""

    rest = "columns"
    names: tuple[str, ...] = Field(alias="columns", min_length=1)

    def describe(self) -> str:
        return ", ".join(map(_resolve_name, self.names))

    def list_references(self) -> tuple[str, ...]:
        return (*map(_resolve_name, self.names), SCORE)

    def infer_columns(self, before: Columns) -> Columns:
        types = dict(before.types)
        return Columns(
            (*((name, types.get(name, "string")) for name in map(_resolve_name, self.names)), *_TOTALS), before.open
        )

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(drops_engine_columns=True)

    def apply(self, rows: DataFrame, context: RunContext) -> DataFrame:
        from pyspark.sql import functions as F

        groups = [_build_column(_resolve_name(name)) for name in self.names]
        return rows.groupBy(*groups).agg(*_build_totals(), F.min("_ordinal").alias("_ordinal"))


_TOTALS = (
    ("rows", "bigint"),
    (SCORE, "double"),
    ("positive", "bigint"),
    ("neutral", "bigint"),
    ("negative", "bigint"),
)


def _build_totals() -> list[Column]:
    from pyspark.sql import functions as F

    value = F.col(SCORE)
    positive, negative = value >= _THRESHOLD, value <= -_THRESHOLD
    return [
        F.count(F.lit(1)).alias("rows"),
        F.avg(value).alias(SCORE),
        F.count_if(positive).alias("positive"),
        F.count_if(~positive & ~negative).alias("neutral"),
        F.count_if(negative).alias("negative"),
    ]


def _build_month_ordinal() -> Column:
    """Return the position of a month, with rows without a month at the end."""
    from pyspark.sql import functions as F

    number = F.regexp_replace("month", "-", "").cast("bigint")
    return F.array(F.coalesce(number, F.lit(2**62)))


def _find_date_column(rows: DataFrame) -> str:
    types = [(name, type_) for name, type_ in rows.dtypes if not name.startswith("_")]
    dated = [name for name, type_ in types if type_ in ("date", "timestamp", "timestamp_ntz")]
    named = [name for name, _ in types if name.replace("_", "").casefold() in _DATES]
    if not dated and not named:
        known = ", ".join(name for name, _ in types)
        raise RunError(f"no column contains dates; set 'date' to the column that does; there are {known}")
    return (dated or named)[0]


def _build_column(name: str) -> Column:
    from pyspark.sql import functions as F

    return F.col(quote_column(name))
