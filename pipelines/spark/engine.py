"""Plan → Spark: sources, passes in Python workers, exchanges of links, table stages."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from itertools import count, islice
from typing import Any

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from pipelines.browser.actions import Browsing
from pipelines.coordination.messages import Endpoint
from pipelines.errors import RunError, summarize_error
from pipelines.fetch import canonical_url
from pipelines.language.columns import ENGINE_COLUMNS, Columns
from pipelines.planning.context import RunContext
from pipelines.planning.plan import Plan, Step
from pipelines.planning.planner import check_references
from pipelines.planning.requirements import find_missing_browser
from pipelines.planning.stage import LinkStage, Reset, RowStage, Sink, Source, TableStage
from pipelines.spark import worker
from pipelines.spark.arrow import map_in_arrow
from pipelines.spark.explore import Explorer
from pipelines.spark.open import close
from pipelines.spark.saves import Saves
from pipelines.spark.schema import LINK, columns_of, explore_schema, links_schema, pass_schema, rows_schema
from pipelines.spark.worker import Exploration, Pass
from pipelines.stages.dataframes import quote_column


@dataclass
class _Segment:
    """Rows, and the steps that will run over them in one pass; `columns` are those that enter it, `after` leave it."""

    rows: DataFrame
    enters: str
    columns: Columns
    fetches: bool = False
    browsing: Browsing | None = None
    stages: list[tuple[str, RowStage | Exploration]] = field(default_factory=list[tuple[str, RowStage | Exploration]])
    after: Columns = field(init=False)

    def __post_init__(self) -> None:
        self.after = self.columns

    @property
    def made_by(self) -> str | None:
        """The last step of the pass; None without a pass, and where its rows are held to find their columns."""
        if self.after.open or not (self.stages or self.fetches):
            return None
        return self.stages[-1][0] if self.stages else self.enters

    def fetched_by(self, stage: LinkStage) -> _Segment:
        """This segment, its pass beginning with the pages of the rows' links."""
        self.fetches, self.browsing = True, stage.browsing
        self.after = stage.infer_columns(self.columns)
        return self

    def add(self, key: str, stage: RowStage | LinkStage) -> None:
        if isinstance(stage, LinkStage):
            self.stages.append((key, Exploration(stage, self.after, explore_schema(self.after))))
        else:
            self.stages.append((key, stage))
        self.after = stage.infer_columns(self.after)


class Engine:
    """Builds the tables of one run; explores run while they are built, all else when the rows are asked for."""

    def __init__(self, spark: SparkSession, plan: Plan, context: RunContext, endpoint: Endpoint | None) -> None:
        self._spark = spark
        self._plan = plan
        since = context.cache.since or datetime.now(UTC)
        self._context = replace(context, stored={}, saved={}, cache=replace(context.cache, since=since))
        self.saves = Saves(self._context)
        self._observed: dict[str, Observation] = {}
        self._endpoint = endpoint
        self._numbers = count(1)
        self._columns = plan.columns
        self._made_by: str | None = None

    def rows(self) -> DataFrame:
        """The output rows with the engine's columns, at most as many as the run's limit."""
        here = (self._spark.sparkContext.master or "").startswith("local")
        if here and (missing := find_missing_browser(self._plan)):
            raise RunError(missing)
        segment: _Segment | None = None
        for step in self._plan.steps[:-1]:
            segment = self._add(segment, step)
        if segment is None:
            raise RunError("the plan has no steps")
        self._made_by = segment.made_by
        rows = self._finish(segment, None)
        self._columns = segment.after.with_columns(self._kept(segment.after))
        limit = self._context.limit
        return rows if limit is None else rows.orderBy("_ordinal").limit(limit)

    def output(self, rows: DataFrame) -> DataFrame:
        """The output's columns of `rows`."""
        return _only(rows, self._columns)

    @property
    def made_by(self) -> str | None:
        """The step whose rows are the output, where workers make them; None where Spark does, or reads what it holds.

        Such rows may be asked for once only: nothing holds them, and whoever asks again fetches their pages again.
        """
        return self._made_by

    def preview(self, made: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """The output's columns of the first rows that the step `made_by` made, as far as the limit leaves them."""
        return [{name: row.get(name) for name in self._columns} for row in islice(made, self._context.limit)]

    def counts(self) -> dict[str, int]:
        """Rows of the steps that Spark itself runs, by step key, of those that are done."""
        observed = self._observed.copy().items()  # the heartbeat asks while the tables are being built
        return {key: each.get["rows"] for key, each in observed if _jvm(each).future().isCompleted()}

    def _kept(self, columns: Columns) -> tuple[tuple[str, str], ...]:
        kept = self._plan.options.keep_columns
        return tuple((name, ENGINE_COLUMNS[name]) for name in kept if name not in tuple(columns))

    def _add(self, segment: _Segment | None, step: Step) -> _Segment | None:
        stage = step.stage
        if isinstance(stage, Source):
            return self._load(step, stage)
        if isinstance(stage, LinkStage) and stage.max_depth is None:
            return self._follow(segment, step, stage)
        if isinstance(stage, Reset):
            return None
        if isinstance(stage, TableStage | Sink):
            return self._table(segment or self._nothing(step), step, stage)
        if segment is None:
            raise RunError(f"{step.title} has no rows to work on")
        if isinstance(stage, RowStage | LinkStage):
            segment.add(step.key, stage)
        return segment

    def _load(self, step: Step, stage: Source) -> _Segment:
        with _located(step):
            rows = stage.load(self._spark, self._context)
        columns = columns_of(rows.schema)
        check_references(self._plan.steps[self._plan.steps.index(step) + 1 :], columns)
        return _Segment(self._counted(step, rows), step.key, columns)

    def _table(self, segment: _Segment, step: Step, stage: TableStage | Sink) -> _Segment:
        columns = stage.infer_columns(segment.after)
        rows = self._finish(segment, None)
        if stage.persists:
            rows = self._counted(step, rows).persist()
        with _located(step):
            if isinstance(stage, Sink):
                self.saves.write(stage, _only(rows, segment.after.with_columns(self._kept(segment.after))))
            else:
                rows = stage.apply(rows, self._context)
        if "_ordinal" not in rows.columns:
            rows = rows.withColumn("_ordinal", F.array(F.monotonically_increasing_id()))
        rows = rows if stage.persists else self._counted(step, rows)
        return _Segment(rows, step.key, columns_of(rows.schema, columns) if columns.open else columns)

    def _counted(self, step: Step, rows: DataFrame) -> DataFrame:
        observation = Observation()
        observed = rows.observe(observation, F.count(F.lit(1)).alias("rows"))
        self._observed[step.key] = observation  # only now: before, there is nothing to ask
        return observed

    def _nothing(self, step: Step) -> _Segment:
        rows = self._spark.range(0).select(F.array(F.col("id")).alias("_ordinal"))
        return _Segment(rows, step.key, Columns())

    def _follow(self, segment: _Segment | None, step: Step, stage: LinkStage) -> _Segment:
        if segment is None:
            return _Segment(self._seed(stage), step.key, Columns()).fetched_by(stage)
        rows = self._exchange(self._finish(segment, stage))
        return _Segment(rows, step.key, segment.after).fetched_by(stage)

    def _seed(self, stage: LinkStage) -> DataFrame:
        url = canonical_url(stage.fixed_url or "")
        ordinal = F.array(F.lit(0).cast("bigint"))
        return self._spark.range(0, 1, 1, 1).select(F.lit(url).alias(LINK), ordinal.alias("_ordinal"))

    def _exchange(self, links: DataFrame) -> DataFrame:
        """Spreads links over all cores; equal ones meet in one partition, side by side, in the order of their rows.

        Sorted by hash, so that the pages of one host are not asked for in one go.
        """
        place = F.array_join(F.col("_ordinal").cast("array<string>"), ".")
        spread = F.xxhash64(F.coalesce(F.col(LINK), place))
        # the number is explicit: adaptive execution would fold a few small rows into one partition
        spread_out = links.repartition(self._spark.sparkContext.defaultParallelism, spread)
        return spread_out.sortWithinPartitions(spread, LINK, "_ordinal")

    def _finish(self, segment: _Segment, links: LinkStage | None) -> DataFrame:
        """What `_made` gives, its columns known: where a transform did not declare them, from its rows."""
        rows = self._made(segment, links)
        if not segment.after.open:
            return rows
        key, stage = next(each for each in reversed(segment.stages) if _is_open(each[1]))
        steps = {step.key: step for step in self._plan.steps}
        fails = isinstance(stage, RowStage) and stage.fails_run
        with _located(steps[key]):
            closed = close(rows, segment.after, key, steps[key].title, fails, self._endpoint)
        segment.after = closed.columns
        check_references(self._plan.steps[self._plan.steps.index(steps[segment.stages[-1][0]]) + 1 :], closed.columns)
        return closed.rows

    def _made(self, segment: _Segment, links: LinkStage | None) -> DataFrame:
        """The rows after a segment's pass; or, for a stage that follows links, rows that carry them."""
        if not segment.stages and not segment.fetches and links is None:
            return segment.rows
        task = Pass(
            name="",
            enters=segment.enters,
            fetches=segment.fetches,
            entering=segment.columns,
            stages=tuple(segment.stages),
            links=links,
            columns=segment.after,
            schema=links_schema(segment.after) if links else rows_schema(segment.after),
            options=self._context.fetch,
            cache=self._context.cache,
            endpoint=self._endpoint,
            browsing=segment.browsing,
        )
        if not task.explorations():
            return self._pass(task, segment.rows)
        partitions = self._spark.sparkContext.defaultParallelism
        explorer = Explorer(self._pass, self._exchange, partitions, self._plan.options.max_pages)
        return explorer.rows(task, segment.rows)

    def _pass(self, task: Pass, rows: DataFrame) -> DataFrame:
        schema = pass_schema(task.schema, {key: each.schema for key, each in task.explorations().items()})
        named = replace(task, name=f"{next(self._numbers)}.{task.enters}")
        return map_in_arrow(rows, partial(worker.run, named), schema)


@contextmanager
def _located(step: Step) -> Generator[None]:
    """Says of a failure which step it is of."""
    try:
        yield
    except RunError as error:
        raise RunError(f"line {step.line}: {step.title}: {error}") from error
    except (AnalysisException, ParseException) as error:
        raise RunError(f"line {step.line}: {step.title}: {summarize_error(error)}") from error


def _only(rows: DataFrame, columns: Columns) -> DataFrame:
    """These columns of the rows, null where a row has none of the name."""
    present = set(rows.columns)
    absent = (F.lit(None).cast(type_).alias(name) for name, type_ in columns.types if name not in present)
    return rows.select(*(_column(name) for name in columns if name in present), *absent)


def _is_open(stage: RowStage | Exploration) -> bool:
    """Whether the stage gives columns that only its rows tell."""
    return isinstance(stage, RowStage) and stage.infer_columns(Columns()).open


def _jvm(observation: Observation) -> Any:
    """The JVM's side, which can tell whether there is something to get; Python's side waits for it."""
    return observation._jo  # pyright: ignore[reportPrivateUsage]


def _column(name: str) -> Column:
    return F.col(quote_column(name))
