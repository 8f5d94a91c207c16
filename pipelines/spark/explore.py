"""The explore stage on Spark: a single task follows links while they are few, and an exchange spreads many.

A pass on all cores fetches one level. A pass of one task fetches level after level, as long as these have few pages,
and hands the links of the first larger level over. Both visit the same pages and give the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple

from pyspark import StorageLevel
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from pipelines.engine.definition import Pass
from pipelines.engine.record_batches import LEVEL, LINK, ROW
from pipelines.engine.segment import (
    build_next_pass,
    fetches_alike,
    fits_in_task,
    follow_links,
    get_frontier_limit,
)
from pipelines.fetch.address_templates import MAX_TEMPLATES, get_template
from pipelines.spark.session import configure_small_jobs

_RECORDS_PER_PAGE = 20  # links that one task may read to find a new page: most lead to visited pages

_HELD_ROWS = 10_000  # of a limit, in the heap
_PLACE = "_place"
_TEMPLATE = "_template"


class Links(NamedTuple):
    """Links of one explore in a pass's output: the depth of those to follow, or 0, and the number with visited ones."""

    level: int = 0
    total: int = 0


@dataclass(frozen=True, slots=True)
class Frame:
    """The checkpointed output of one pass, the links of every explore in it, and whether it has redirected pages."""

    records: DataFrame
    links: Mapping[str, Links]
    is_redirected: bool


@dataclass(frozen=True, slots=True)
class Explorer:
    """Runs the passes of explores; stages after an explore run inside these passes."""

    run: Callable[[Pass, DataFrame], DataFrame]
    exchange: Callable[[DataFrame], DataFrame]
    partitions: int
    report_bounded: Callable[[str, Iterable[str]], None]

    def run_levels(self, task: Pass, entering: DataFrame, in_one_task: bool) -> DataFrame:
        """Return the finished rows of the pass and of all levels of its explores."""
        first = next(iter(task.get_explorations()))
        follows = in_one_task and fetches_alike(task, build_next_pass(task, first, 1))
        with configure_small_jobs(entering.sparkSession):
            frame = self._run_pass(self._follow(task, first) if follows else task, entering)
            return self._run_rest(task, [frame], first, follows)

    def go_on(self, task: Pass, records: Sequence[DataFrame], key: str) -> DataFrame:
        """Return the finished rows of the output of earlier passes, and of the further levels from this explore on."""
        with configure_small_jobs(records[0].sparkSession):
            return self._run_rest(task, [self._keep(task, each) for each in records], key, followed=True)

    def _run_rest(self, task: Pass, frames: list[Frame], first: str, followed: bool) -> DataFrame:
        explores = [*task.get_explorations()]
        for key in explores[explores.index(first) :]:
            frames.extend(self._explore(task, key, tuple(frames), followed and key == first))
        rows = _union(_select_kind(frame, ROW) for frame in frames)
        *_, last = task.get_explorations().values()
        if last.gives_pages_once and len(frames) > 1 and any(frame.is_redirected for frame in frames):
            rows = _drop_repeated_pages(rows)
        return rows.coalesce(self.partitions)

    def _explore(self, task: Pass, key: str, frames: tuple[Frame, ...], followed: bool) -> Iterator[Frame]:
        """Yield the output of the passes of one explore; every page is visited once, at its smallest depth.

        With `followed`, a task has handed these links over, because they are too many for it.
        """
        links = _union(_select_kind(frame, key) for frame in frames)
        level = max(frame.links[key].level for frame in frames)
        number = sum(frame.links[key].total for frame in frames)
        visited = _select_visited(links)
        while level:
            found, next_pass = links.where(F.col(LEVEL) == level).drop(LEVEL), build_next_pass(task, key, level)
            limit = get_frontier_limit(next_pass)
            followed = fits_in_task(task, limit) or (not followed and number <= _RECORDS_PER_PAGE * limit)
            if followed:
                frontier = found.unionByName(visited, allowMissingColumns=True).coalesce(1)
                next_pass = self._follow(build_next_pass(task, key, level - 1), key)
            else:
                if (per_template := task.get_explorations()[key].stage.max_per_template) is not None:
                    found, names = _limit_templates(found, visited, per_template)
                    self.report_bounded(key, names)
                most = min(filter(None, (task.max_pages, task.wanted)), default=None)
                left = None if most is None else most - visited.distinct().count()
                if left is not None and left <= 0:
                    return
                if left is not None:
                    found = _limit_pages(found.join(visited, LINK, "left_anti"), left)
                # visited links take part, without an ordinal: a link that meets its visited copy is not fetched
                frontier = self.exchange(found.unionByName(visited, allowMissingColumns=True))
            frame = self._run_pass(next_pass, frontier)
            yield frame
            links = _select_kind(frame, key)
            visited = visited.union(_select_visited(links) if followed else found.select(LINK))
            visited = checkpoint(visited.coalesce(self.partitions))
            level, number = frame.links[key].level, number + frame.links[key].total

    def _follow(self, task: Pass, key: str) -> Pass:
        """Return the pass as one that follows the links of an explore, with the requests of all tasks in its one."""
        return follow_links(task, key, get_frontier_limit(task), self.partitions)

    def _run_pass(self, task: Pass, rows: DataFrame) -> Frame:
        """Run a pass once."""
        return self._keep(task, self.run(task, rows))

    def _keep(self, task: Pass, output: DataFrame) -> Frame:
        """Checkpoint the output of a pass, so that no later action fetches its pages again.

        A cached plan would contain those of all earlier levels.
        """
        records = checkpoint(output)
        keys = [*task.get_explorations()]
        totals = (each for key in keys for each in (F.max(F.col(f"{key}.{LEVEL}")), F.count(key)))
        redirected = F.max(F.col(f"{ROW}._url") != F.col(f"{ROW}._requestedUrl"))
        *found, is_redirected = records.agg(*totals, redirected).first() or (None,)
        links = {key: Links(found[2 * n] or 0, found[2 * n + 1]) for n, key in enumerate(keys)}
        return Frame(records, links, bool(is_redirected))


def checkpoint(rows: DataFrame) -> DataFrame:
    """Return rows that their first action computes and keeps on disk: in the heap they would grow with the site."""
    return rows.localCheckpoint(eager=False, storageLevel=StorageLevel.DISK_ONLY)


def _drop_repeated_pages(rows: DataFrame) -> DataFrame:
    """Return the rows without pages that links of several tasks redirect to; the nearest stays, or an address itself.

    A task has left out those that it has itself; links after the explore have no address yet, and all stay.
    """
    page = F.when(F.col("_error").isNull(), F.col("_url"))
    is_redirected = F.col("_requestedUrl") != F.col("_url")
    place = F.struct(F.coalesce("_depth", F.lit(0)), is_redirected, "_ordinal", "_requestedUrl")
    first = F.min(place).over(Window.partitionBy(page))["_requestedUrl"]
    kept = page.isNull() | first.eqNullSafe(F.col("_requestedUrl"))
    return rows.withColumn(_PLACE, kept).where(_PLACE).drop(_PLACE)


def _limit_pages(frontier: DataFrame, pages: int) -> DataFrame:
    """Return the first `pages` pages of the frontier in document order."""
    first = frontier.groupBy(LINK).agg(F.min("_ordinal").alias("_ordinal"))
    return frontier.join(take_first(first, pages), [LINK, "_ordinal"], "left_semi")


def _limit_templates(found: DataFrame, visited: DataFrame, most: int) -> tuple[DataFrame, list[str]]:
    """Return the first links of each template, as many as its visited pages leave, and the templates with more."""
    template = F.udf(get_template, "string", useArrow=False)(LINK).alias(_TEMPLATE)
    first = found.join(visited, LINK, "left_anti").groupBy(LINK).agg(F.min("_ordinal").alias("_ordinal"))
    known = visited.distinct().groupBy(template).agg(F.count(F.lit(1)).alias(_PLACE))
    number = F.row_number().over(Window.partitionBy(_TEMPLATE).orderBy("_ordinal"))
    numbered = first.select(LINK, "_ordinal", template).select(LINK, _TEMPLATE, number.alias("_number"))
    place = F.col("_number") + F.coalesce(F.col(_PLACE), F.lit(0))
    placed = checkpoint(numbered.join(known, _TEMPLATE, "left").select(LINK, _TEMPLATE, (place <= most).alias(_PLACE)))
    names = placed.where(~F.col(_PLACE)).select(_TEMPLATE).distinct().orderBy(_TEMPLATE).limit(MAX_TEMPLATES).collect()
    return found.join(placed.where(_PLACE), LINK, "left_semi"), [name for (name,) in names]


def take_first(rows: DataFrame, number: int) -> DataFrame:
    """Return the first rows in document order; Spark itself would hold so many in the heap of a task."""
    if number <= _HELD_ROWS:
        return rows.orderBy("_ordinal").limit(number)
    # ids grow from partition to partition, and from row to row
    placed = checkpoint(rows.orderBy("_ordinal").withColumn(_PLACE, F.monotonically_increasing_id()))
    counted = placed.groupBy(F.spark_partition_id().alias("part")).agg(F.count("*"), F.min(_PLACE)).orderBy("part")
    for _, count, first in counted.collect():
        if number < count:
            return placed.where(F.col(_PLACE) < first + number).drop(_PLACE)
        number -= count
    return placed.drop(_PLACE)


def _select_visited(links: DataFrame) -> DataFrame:
    return links.where(F.col(LEVEL) == 0).select(LINK)


def _select_kind(frame: Frame, kind: str) -> DataFrame:
    """Return the records of one kind: finished rows, or the links of one explore."""
    return frame.records.where(F.col(kind).isNotNull()).select(f"{kind}.*")


def _union(frames: Iterable[DataFrame]) -> DataFrame:
    return reduce(DataFrame.unionByName, frames)
