"""explore on Spark: level by level, the links of one level exchanged and fetched by the pass of the next."""

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
class Frame:
    """What a pass gave, held by Spark; `deepest` is the deepest level that its links lead to, for each explore."""

    records: DataFrame
    deepest: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Explorer:
    """Runs passes that take part in explores; what follows an explore runs inside its passes."""

    run: Callable[[Pass, DataFrame], DataFrame]
    exchange: Callable[[DataFrame], DataFrame]
    partitions: int
    max_pages: int | None

    def rows(self, task: Pass, entering: DataFrame) -> DataFrame:
        """The finished rows of the pass and of all levels that its explores go down to."""
        with _small_jobs(entering.sparkSession):
            frames = [self._held(task, entering)]
            for key, exploration in task.explorations().items():
                frames.extend(self._levels(task, key, exploration.stage.max_depth or 0, tuple(frames)))
        return _union(_only(frame, ROW) for frame in frames).coalesce(self.partitions)

    def _levels(self, task: Pass, key: str, depth: int, frames: tuple[Frame, ...]) -> Iterator[Frame]:
        """One frame per level; every page is visited once, at its smallest depth."""
        links = _union(_only(frame, key) for frame in frames)
        deepest = max(frame.deepest[key] for frame in frames)
        visited = links.where(F.col(LEVEL) == 0).select(LINK)
        left = self._pages_left(visited)
        for level in range(1, depth + 1):
            if deepest < level or left == 0:
                return
            found = links.where(F.col(LEVEL) == level).drop(LEVEL)
            if left is not None:
                found = _nearest(found.join(visited, LINK, "left_anti"), left)
                left -= found.select(LINK).distinct().count()
            # pages that were visited travel with the links, without an ordinal: where both meet, nothing is fetched
            frontier = self.exchange(found.unionByName(visited, allowMissingColumns=True))
            frame = self._held(_deeper(task, key, level), frontier)
            yield frame
            visited = visited.union(found.select(LINK)).coalesce(self.partitions).localCheckpoint(eager=False)
            links, deepest = _only(frame, key), frame.deepest[key]

    def _pages_left(self, visited: DataFrame) -> int | None:
        return None if self.max_pages is None else max(self.max_pages - visited.distinct().count(), 0)

    def _held(self, task: Pass, rows: DataFrame) -> Frame:
        """The pass, run once and kept, so that no later question fetches its pages again.

        A checkpoint, because plans that are only cached carry those of all earlier levels along.
        """
        records = self.run(task, rows).localCheckpoint(eager=False)
        found = records.agg(*(F.max(F.col(f"{key}.{LEVEL}")).alias(key) for key in task.explorations())).first()
        return Frame(records, {key: level or 0 for key, level in (found.asDict() if found else {}).items()})


@contextmanager
def _small_jobs(spark: SparkSession) -> Generator[None]:
    """For a while: planning in one go and no compiling, which cost more than such jobs take to run."""
    settings = ("spark.sql.adaptive.enabled", "spark.sql.codegen.wholeStage")
    before = {name: str(spark.conf.get(name)) for name in settings}
    try:
        for name in settings:
            spark.conf.set(name, "false")
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


def _deeper(task: Pass, key: str, level: int) -> Pass:
    """The part of a pass that the pages of an explore's next level go through."""
    exploration = task.explorations()[key]
    position = [name for name, _ in task.stages].index(key)
    stages = ((key, replace(exploration, level=level)), *task.stages[position + 1 :])
    browsing = exploration.stage.browsing
    return replace(task, enters=key, fetches=True, browsing=browsing, entering=exploration.columns, stages=stages)


def _nearest(frontier: DataFrame, pages: int) -> DataFrame:
    """As many pages of the frontier as are left, the first in document order."""
    first = frontier.groupBy(LINK).agg(F.min("_ordinal").alias("_ordinal"))
    return frontier.join(first.orderBy("_ordinal").limit(pages), [LINK, "_ordinal"], "left_semi")


def _only(frame: Frame, kind: str) -> DataFrame:
    """The records of one kind: finished rows, or the links of one explore."""
    return frame.records.where(F.col(kind).isNotNull()).select(f"{kind}.*")


def _union(frames: Iterable[DataFrame]) -> DataFrame:
    return reduce(DataFrame.unionByName, frames)
