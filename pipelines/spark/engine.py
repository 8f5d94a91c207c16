"""The DataFrames of a plan: sources, passes in Python workers, exchanges of links, table stages."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from itertools import count, islice
from typing import Any

from py4j.protocol import Py4JNetworkError
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from pipelines.browser.actions import Browsing
from pipelines.coordination.messages import Endpoint
from pipelines.errors import RunError, summarize_error
from pipelines.extract.document import Parser
from pipelines.extract.pagination import Pagination
from pipelines.fetch import FetchOptions, canonical_url
from pipelines.fetch.requests import RequestTemplate
from pipelines.language.columns import ENGINE_COLUMNS, Columns, quote_column
from pipelines.passes.frontier import Exploration
from pipelines.passes.schema import LINK, build_explore_schema, build_links_schema, build_rows_schema
from pipelines.passes.worker import Pass
from pipelines.planning.context import RunContext
from pipelines.planning.plan import Plan, Step, find_link_limits
from pipelines.planning.planner import check_references
from pipelines.planning.stage import Export, LinkStage, Reset, RowStage, Sink, Source, TableStage
from pipelines.spark.checkpoints import Checkpoints
from pipelines.spark.cluster import is_local_master
from pipelines.spark.explore import Explorer
from pipelines.spark.output import Saves
from pipelines.spark.requirements import find_missing_browser
from pipelines.spark.schema_inference import infer_columns
from pipelines.spark.tasks import build_pass_schema, get_columns, map_in_arrow, run_pass_in_task

_MEMORY = 256 * 1024 * 1024  # bytes of files in flight in a task
_FILE_SECONDS = 600.0


@dataclass
class _Segment:
    """Rows and the steps of one pass over them; `columns` are those before the pass, `after` those after it.

    With `in_one_task`, Spark has the rows in a single partition.
    """

    rows: DataFrame
    enters: str
    columns: Columns
    in_one_task: bool = False
    fetches: bool = False
    browsing: Browsing | None = None
    request: RequestTemplate | None = None
    pagination: Pagination | None = None
    parser: Parser | None = None
    file_limit: int | None = None
    stages: list[tuple[str, RowStage | Exploration]] = field(default_factory=list[tuple[str, RowStage | Exploration]])
    max_pages: int | None = None
    after: Columns = field(init=False)

    def __post_init__(self) -> None:
        self.after = self.columns

    @property
    def last_worker_step(self) -> str | None:
        """The last step of the pass; None without a pass, and when its rows are cached to infer their columns."""
        if self.after.open or not (self.stages or self.fetches):
            return None
        return self.stages[-1][0] if self.stages else self.enters

    @property
    def has_one_page(self) -> bool:
        """Whether the pass begins with a single page, so that the pages of an explore are in document order."""
        widens = any(not isinstance(stage, RowStage) or stage.widens for _, stage in self.stages)
        return self.in_one_task and self.pagination is None and not widens

    def fetch_links(self, stage: LinkStage, request: RequestTemplate | None) -> _Segment:
        """Begin the pass with the pages of the rows' links."""
        self.fetches, self.browsing, self.request, self.parser = True, stage.browsing, request, stage.page_parser
        self.pagination, self.file_limit = stage.pagination, stage.file_limit
        self.after = stage.infer_columns(self.columns)
        return self

    def add(self, key: str, stage: RowStage | LinkStage, request: RequestTemplate | None = None) -> None:
        if isinstance(stage, LinkStage):
            schema = build_explore_schema(self.after)
            self.stages.append((key, Exploration(stage, self.after, schema, request=request)))
        else:
            self.stages.append((key, stage))
        self.after = stage.infer_columns(self.after)


class Engine:
    """Builds the DataFrames of one run; explores run while it builds, all other passes with the action on the rows."""

    def __init__(
        self,
        spark: SparkSession,
        plan: Plan,
        context: RunContext,
        endpoint: Endpoint | None,
        checkpoints: Checkpoints | None = None,
    ) -> None:
        self._spark = spark
        self._plan = plan
        since = context.cache.since or datetime.now(UTC)
        cache = replace(context.cache, since=since)
        self._context = replace(context, stored={}, saved={}, shown={}, cache=cache, endpoint=endpoint)
        self.saves = Saves(self._context)
        self.shown = self._context.shown  # by step key, the rows of stages such as echo
        self._observed: dict[str, Observation] = {}
        self._endpoint = endpoint
        self._checkpoints = checkpoints
        self._counted: Mapping[str, int] = {}
        self._resumed_after: Step | None = None
        self._link_limits = find_link_limits(plan.steps[:-1], context.limit)
        self._numbers = count(1)
        self._columns = plan.columns
        self._last_worker_step: str | None = None

    def build_rows(self) -> DataFrame:
        """Return the output rows with the engine's columns, within the run's limit."""
        if is_local_master(self._spark.sparkContext.master or "") and (missing := find_missing_browser(self._plan)):
            raise RunError(missing)
        segment, steps = self._resume()
        for step in steps:
            segment = self._add_step(segment, step)
        if segment is None:
            raise RunError("the plan has no steps")
        self._last_worker_step = segment.last_worker_step
        rows = self._finish(segment, None)
        self._columns = segment.after.with_columns(self._get_kept_columns(segment.after))
        limit = self._context.limit
        return rows if limit is None else rows.orderBy("_ordinal").limit(limit)

    def select_output(self, rows: DataFrame) -> DataFrame:
        """Return the output's columns of `rows`."""
        return _select(rows, self._columns)

    @property
    def last_worker_step(self) -> str | None:
        """The step whose rows are the output when Python workers produce them; None for rows from Spark or its cache.

        Only one action may read such rows: a second one would fetch their pages again.
        """
        return self._last_worker_step

    def select_preview(self, rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return the output's columns of the first rows of `last_worker_step`, within the run's limit."""
        return [{name: row.get(name) for name in self._columns} for row in islice(rows, self._context.limit)]

    def get_counts(self) -> dict[str, int]:
        """Return the numbers of rows of finished steps that Spark itself runs, by step key."""
        observed = self._observed.copy().items()  # another thread may be building DataFrames
        counts = ((key, _read_count(each)) for key, each in observed)
        return {**self._counted, **{key: rows for key, rows in counts if rows is not None}}

    @property
    def resumed_after(self) -> Step | None:
        """The step whose rows an earlier attempt has computed, and the first of which this run has the rows."""
        return self._resumed_after

    def _resume(self) -> tuple[_Segment | None, Sequence[Step]]:
        """Return the rows of the earlier attempts' last checkpoint, if there is one, and the steps that are left."""
        steps = self._plan.steps[:-1]
        resumption = self._checkpoints.resume(self.shown) if self._checkpoints else None
        if resumption is None:
            return None, steps
        step = self._resumed_after = resumption.step
        self._counted = resumption.counted
        number = steps.index(step) + 1
        for earlier in steps[:number]:
            if isinstance(earlier.stage, TableStage) and earlier.key in resumption.rows:
                earlier.stage.apply(resumption.rows[earlier.key], self._context)
        check_references(steps[number:], resumption.columns)
        return _Segment(resumption.rows[step.key], step.key, resumption.columns), steps[number:]

    def _get_kept_columns(self, columns: Columns) -> tuple[tuple[str, str], ...]:
        """Return the engine's columns that the pipeline keeps, with their types."""
        kept = self._plan.options.keep_columns
        return tuple((name, ENGINE_COLUMNS[name]) for name in kept if name not in tuple(columns))

    def _add_step(self, segment: _Segment | None, step: Step) -> _Segment | None:
        stage = step.stage
        if isinstance(stage, Source):
            return self._load(step, stage)
        if isinstance(stage, LinkStage) and stage.max_depth is None:
            return self._follow(segment, step, stage)
        if isinstance(stage, Reset):
            return None
        if isinstance(stage, TableStage | Sink | Export):
            return self._apply_table_stage(segment or self._create_empty(step), step, stage)
        if segment is None:
            raise RunError(f"{step.title} has no rows to work on")
        if isinstance(stage, LinkStage):
            if segment.has_one_page and (wanted := self._link_limits.get(step.key)) is not None:
                segment.max_pages = max(wanted, 1)
            segment.add(step.key, stage, self._build_request(stage, segment.after))
        elif isinstance(stage, RowStage):
            segment.add(step.key, stage)
        return segment

    def _load(self, step: Step, stage: Source) -> _Segment:
        with _locate_errors(step):
            rows = stage.load(self._spark, self._context)
        columns = get_columns(rows.schema)
        check_references(self._plan.steps[self._plan.steps.index(step) + 1 :], columns)
        if stage.gives_page:
            links = self._exchange(rows.withColumnRenamed("_requestedUrl", LINK))
            request = self._build_request(stage, columns)
            return _Segment(links, step.key, columns, fetches=True, request=request)
        return _Segment(self._observe(step, rows), step.key, columns)

    def _apply_table_stage(self, segment: _Segment, step: Step, stage: TableStage | Sink | Export) -> _Segment:
        columns = stage.infer_columns(segment.after)
        rows = self._finish(segment, None)
        if stage.persists:
            rows = self._persist(step, self._observe(step, rows), columns)
        with _locate_errors(step):
            if isinstance(stage, TableStage):
                rows = stage.apply(rows, replace(self._context, step=step.key))
            else:
                saved = _select(rows, segment.after.with_columns(self._get_kept_columns(segment.after)))
                if isinstance(stage, Sink):
                    self.saves.write(stage, saved)
                else:
                    self.saves.add_export(step.location, stage, saved)
        if "_ordinal" not in rows.columns:
            rows = rows.withColumn("_ordinal", F.array(F.monotonically_increasing_id()))
        rows = rows if stage.persists else self._observe(step, rows)
        return _Segment(rows, step.key, get_columns(rows.schema, columns) if columns.open else columns)

    def _persist(self, step: Step, rows: DataFrame, columns: Columns) -> DataFrame:
        """Return rows that are computed once: in files, where later attempts find them, or in memory."""
        if self._checkpoints and self._checkpoints.has(step):
            known = get_columns(rows.schema, columns) if columns.open else columns
            written = self._checkpoints.write(step, rows, known, self.get_counts, self.shown)
            if written is not None:
                return written
        return rows.persist()

    def _observe(self, step: Step, rows: DataFrame) -> DataFrame:
        """Count the rows during the action that computes them."""
        observation = Observation()
        observed = rows.observe(observation, F.count(F.lit(1)).alias("rows"))
        self._observed[step.key] = observation  # after `observe`, which initializes it
        return observed

    def _create_empty(self, step: Step) -> _Segment:
        rows = self._spark.range(0).select(F.array(F.col("id")).alias("_ordinal"))
        return _Segment(rows, step.key, Columns())

    def _follow(self, segment: _Segment | None, step: Step, stage: LinkStage) -> _Segment:
        if segment is None:
            seed, request = self._create_seed(stage), self._build_request(stage, Columns())
            return _Segment(seed, step.key, Columns(), in_one_task=True).fetch_links(stage, request)
        links = self._finish(segment, stage)
        if (wanted := self._link_limits.get(step.key)) is not None:
            links = links.orderBy("_ordinal").limit(wanted)
        rows = self._exchange(links)
        return _Segment(rows, step.key, segment.after).fetch_links(stage, self._build_request(stage, segment.after))

    def _build_request(self, stage: LinkStage | Source, columns: Columns) -> RequestTemplate | None:
        return self._plan.build_request(stage, columns, self._context.cache.secrets)

    def _create_seed(self, stage: LinkStage) -> DataFrame:
        url = canonical_url(stage.fixed_url or "")
        ordinal = F.array(F.lit(0).cast("bigint"))
        return self._spark.range(0, 1, 1, 1).select(F.lit(url).alias(LINK), ordinal.alias("_ordinal"))

    def _exchange(self, links: DataFrame) -> DataFrame:
        """Distribute links over all cores; equal links become neighbours in one partition, in document order.

        Sorting by hash mixes the pages of different hosts.
        """
        ordinal = F.array_join(F.col("_ordinal").cast("array<string>"), ".")
        hashed = F.xxhash64(F.coalesce(F.col(LINK), ordinal))
        # with a number: adaptive execution would merge small partitions into one
        partitioned = links.repartition(self._spark.sparkContext.defaultParallelism, hashed)
        return partitioned.sortWithinPartitions(hashed, LINK, "_ordinal")

    def _finish(self, segment: _Segment, links: LinkStage | None) -> DataFrame:
        """Run the segment's pass, and infer columns that a transform did not declare."""
        rows = self._build_pass(segment, links)
        if not segment.after.open:
            return rows
        key, stage = next(each for each in reversed(segment.stages) if _is_open(each[1]))
        steps = {step.key: step for step in self._plan.steps}
        fails = isinstance(stage, RowStage) and stage.fails_run
        with _locate_errors(steps[key]):
            typed = infer_columns(rows, segment.after, key, steps[key].title, fails, self._endpoint)
        segment.after = typed.columns
        check_references(self._plan.steps[self._plan.steps.index(steps[segment.stages[-1][0]]) + 1 :], typed.columns)
        return typed.rows

    def _build_pass(self, segment: _Segment, links: LinkStage | None) -> DataFrame:
        """Return the rows after a segment's pass, or with `links` the rows with links for the next pass."""
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
            schema=build_links_schema(segment.after) if links else build_rows_schema(segment.after),
            options=_limit_files(self._context.fetch, segment.file_limit),
            cache=self._context.cache,
            endpoint=self._endpoint,
            browsing=segment.browsing,
            request=segment.request,
            pagination=segment.pagination,
            max_pages=min(filter(None, (segment.max_pages, self._plan.options.max_pages)), default=None),
            parser=segment.parser,
            files=self._context.files if segment.file_limit else None,
        )
        if not task.get_explorations():
            return self._run_pass(task, segment.rows)
        partitions = self._spark.sparkContext.defaultParallelism
        explorer = Explorer(self._run_pass, self._exchange, partitions)
        return explorer.run_levels(task, segment.rows, segment.in_one_task)

    def _run_pass(self, task: Pass, rows: DataFrame) -> DataFrame:
        schema = build_pass_schema(task.schema, {key: each.schema for key, each in task.get_explorations().items()})
        named = replace(task, name=f"{next(self._numbers)}.{task.enters}")
        return map_in_arrow(rows, partial(run_pass_in_task, named), schema)


@contextmanager
def _locate_errors(step: Step) -> Generator[None]:
    """Name the step in errors."""
    try:
        yield
    except RunError as error:
        raise RunError(f"line {step.line}: {step.title}: {error}", step.line) from error
    except (AnalysisException, ParseException) as error:
        raise RunError(f"line {step.line}: {step.title}: {summarize_error(error)}", step.line) from error


def _limit_files(options: FetchOptions, file_limit: int | None) -> FetchOptions:
    """Return options for files of that size: larger bodies, for longer, and fewer at a time."""
    if file_limit is None:
        return options
    concurrency = min(options.concurrency, max(1, _MEMORY // file_limit))
    seconds = max(options.total_timeout, _FILE_SECONDS)
    return replace(options, max_body=file_limit, concurrency=concurrency, total_timeout=seconds)


def _select(rows: DataFrame, columns: Columns) -> DataFrame:
    """Return these columns of the rows; null for a missing column."""
    present = set(rows.columns)
    absent = (F.lit(None).cast(type_).alias(name) for name, type_ in columns.types if name not in present)
    return rows.select(*(_get_column(name) for name in columns if name in present), *absent)


def _is_open(stage: RowStage | Exploration) -> bool:
    """Return whether the stage's columns must be inferred from its rows."""
    return isinstance(stage, RowStage) and stage.infer_columns(Columns()).open


def _read_count(observation: Observation) -> int | None:
    """Return the observed number of rows; None if there is no result yet, after an error, and for rows not computed.

    Asks the JVM's object: PySpark's `get` blocks until there is a result, and fails when Spark has removed the counted
    rows from its plan, because no row could follow from them.
    """
    java: Any = observation._jo  # pyright: ignore[reportPrivateUsage]
    try:
        if not java.future().isCompleted():
            return None
        row = java.getRow()
    except (Py4JNetworkError, OSError):  # the JVM of a cancelled run has ended
        return None
    return int(row.getLong(0)) if row.length() else None


def _get_column(name: str) -> Column:
    return F.col(quote_column(name))
