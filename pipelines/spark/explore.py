"""The explore stage on Spark: each level is a pass that fetches the links of the level before."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pipelines.spark.schema import LEVEL, LINK, ROW
from pipelines.spark.worker import Pass


@dataclass(frozen=True, slots=True)
class Level:
    """The checkpointed output of one pass; `deepest` is the greatest depth of its links for each explore."""

    records: DataFrame
    deepest: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Explorer:
    """Runs the passes of explores; stages after an explore run inside these passes."""

    run: Callable[[Pass, DataFrame], DataFrame]
    exchange: Callable[[DataFrame], DataFrame]
    partitions: int
    max_pages: int | None

    def run_levels(self, task: Pass, entering: DataFrame) -> DataFrame:
        """Return the finished rows of the pass and of all levels of its explores."""
        with _configure_small_jobs(entering.sparkSession):
            frames = [self._run_pass(task, entering)]
            for key, exploration in task.get_explorations().items():
                frames.extend(self._explore(task, key, exploration.stage.max_depth or 0, tuple(frames)))
        return _union(_select_kind(frame, ROW) for frame in frames).coalesce(self.partitions)

    def _explore(self, task: Pass, key: str, depth: int, frames: tuple[Level, ...]) -> Iterator[Level]:
        """Yield the levels of one explore; every page is visited once, at its smallest depth."""
        links = _union(_select_kind(frame, key) for frame in frames)
        deepest = max(frame.deepest[key] for frame in frames)
        visited = links.where(F.col(LEVEL) == 0).select(LINK)
        left = self._count_pages_left(visited)
        for level in range(1, depth + 1):
            if deepest < level or left == 0:
                return
            found = links.where(F.col(LEVEL) == level).drop(LEVEL)
            if left is not None:
                found = _limit_pages(found.join(visited, LINK, "left_anti"), left)
                left -= found.select(LINK).distinct().count()
            # visited links take part, without an ordinal: a link that meets its visited copy is not fetched
            frontier = self.exchange(found.unionByName(visited, allowMissingColumns=True))
            frame = self._run_pass(_build_next_pass(task, key, level), frontier)
            yield frame
            visited = visited.union(found.select(LINK)).coalesce(self.partitions).localCheckpoint(eager=False)
            links, deepest = _select_kind(frame, key), frame.deepest[key]

    def _count_pages_left(self, visited: DataFrame) -> int | None:
        return None if self.max_pages is None else max(self.max_pages - visited.distinct().count(), 0)

    def _run_pass(self, task: Pass, rows: DataFrame) -> Level:
        """Run a pass once and checkpoint its output, so that no later action fetches its pages again.

        A cached plan would contain those of all earlier levels.
        """
        records = self.run(task, rows).localCheckpoint(eager=False)
        found = records.agg(*(F.max(F.col(f"{key}.{LEVEL}")).alias(key) for key in task.get_explorations())).first()
        return Level(records, {key: level or 0 for key, level in (found.asDict() if found else {}).items()})


@contextmanager
def _configure_small_jobs(spark: SparkSession) -> Generator[None]:
    """Turn adaptive execution and code generation off, which cost more than small jobs take."""
    settings = ("spark.sql.adaptive.enabled", "spark.sql.codegen.wholeStage")
    before = {name: str(spark.conf.get(name)) for name in settings}
    try:
        for name in settings:
            spark.conf.set(name, "false")
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


def _build_next_pass(task: Pass, key: str, level: int) -> Pass:
    """Return the pass for the pages of an explore's next level."""
    exploration = task.get_explorations()[key]
    position = [name for name, _ in task.stages].index(key)
    stages = ((key, replace(exploration, level=level)), *task.stages[position + 1 :])
    stage = exploration.stage
    how = {"browsing": stage.browsing, "request": exploration.request, "pagination": None, "parser": stage.page_parser}
    return replace(task, enters=key, fetches=True, entering=exploration.columns, stages=stages, **how)


def _limit_pages(frontier: DataFrame, pages: int) -> DataFrame:
    """Return the first `pages` pages of the frontier in document order."""
    first = frontier.groupBy(LINK).agg(F.min("_ordinal").alias("_ordinal"))
    return frontier.join(first.orderBy("_ordinal").limit(pages), [LINK, "_ordinal"], "left_semi")


def _select_kind(frame: Level, kind: str) -> DataFrame:
    """Return the records of one kind: finished rows, or the links of one explore."""
    return frame.records.where(F.col(kind).isNotNull()).select(f"{kind}.*")


def _union(frames: Iterable[DataFrame]) -> DataFrame:
    return reduce(DataFrame.unionByName, frames)
