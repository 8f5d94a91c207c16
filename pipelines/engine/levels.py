"""Passes of an explore: which pass fetches the next level, and which one follows the links of several levels."""

from __future__ import annotations

from dataclasses import replace

from pipelines.browser.model import BrowserOptions
from pipelines.engine.definition import Pass
from pipelines.planning.stage import RowStage

FRONTIER = 1_000  # pages of a level that one task fetches sooner than an exchange could spread
SLOW_FRONTIER = 50  # where rows pass through user functions
_MAX_CONCURRENCY = 256


def follow_links(task: Pass, key: str, frontier: int | None, partitions: int) -> Pass:
    """Return the pass as one that follows the links of an explore, level by level, with at most `frontier` a level.

    Without a frontier there is no such limit. The pass may send as many requests at once as `partitions` tasks.
    """
    frontier = None if fits_in_task(task, frontier) else frontier
    concurrency = min(task.options.concurrency * partitions, _MAX_CONCURRENCY)
    options = replace(task.options, concurrency=max(concurrency, task.options.concurrency))
    return replace(task, follows=key, frontier=frontier, options=options)


def fits_in_task(task: Pass, frontier: int | None) -> bool:
    """Return whether the pages that the pass wants of its explore are no more than a task fetches of one level."""
    return frontier is None or (task.wanted is not None and task.wanted <= frontier)


def build_next_pass(task: Pass, key: str, level: int) -> Pass:
    """Return the pass for the pages of an explore's next level."""
    exploration = task.get_explorations()[key]
    position = [name for name, _ in task.stages].index(key)
    stages = ((key, replace(exploration, level=level)), *task.stages[position + 1 :])
    stage = exploration.stage
    how = {"fetching": replace(stage.fetching, request=None), "request": exploration.request, "tracking": None}
    return replace(task, enters=key, fetches=True, entering=exploration.columns, stages=stages, **how)


def fetches_alike(task: Pass, other: Pass) -> bool:
    """Return whether two passes differ only in the rows that enter them, so that one fetcher can serve both."""
    start = {name: getattr(task, name) for name in ("enters", "fetches", "entering", "stages")}
    fetching = replace(other.fetching, pagination=task.fetching.pagination)
    return replace(other, fetching=fetching, **start) == task


def get_frontier_limit(task: Pass) -> int:
    """Return the number of pages of a level up to which one task fetches them sooner than an exchange could."""
    if task.fetching.browsing:
        return BrowserOptions.from_environment().pages
    stages = (stage for _, stage in task.stages if isinstance(stage, RowStage))
    return SLOW_FRONTIER if any(stage.is_slow for stage in stages) else FRONTIER
