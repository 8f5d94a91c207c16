"""Totals of all tasks: statistics of the values of selectors, and the numbers of pages by means."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from pipelines.coordination.messages import Readings, Statistics
from pipelines.inference.drift import RunStatistics
from pipelines.inference.records import make_key

Key = tuple[str, str, str]  # host, template, question


class Tallies:
    """The last totals of each task; a task that runs again replaces those of its earlier attempt."""

    def __init__(self) -> None:
        self._statistics: dict[str, list[Statistics]] = {}
        self._served: dict[str, dict[str, int]] = {}

    def take(self, task: str, readings: Readings) -> None:
        """Take totals of a task; those of other templates stay."""
        replaced = {_get_key(each) for each in readings.statistics}
        kept = [each for each in self._statistics.get(task, ()) if _get_key(each) not in replaced]
        self._statistics[task] = [*kept, *readings.statistics]
        self._served[task] = readings.served

    def merge(self, key: Key, version: int) -> RunStatistics:
        """Return the statistics of all tasks about one version of selectors."""
        merged = RunStatistics()
        for statistics in [*self._statistics.values()]:
            for each in statistics:
                if _get_key(each) == key and each.version == version:
                    merged.merge(RunStatistics.from_json(each.values))
        return merged

    def count_served(self) -> Mapping[str, int]:
        """Return the number of answered questions about pages, by means."""
        served: Counter[str] = Counter()
        for each in [*self._served.values()]:
            served.update(each)
        return dict(served)

    def count_pages(self) -> Mapping[str, int]:
        """Return the number of pages that a proven record has read, by its id."""
        pages: dict[str, int] = {}
        for statistics in [*self._statistics.values()]:
            for each in statistics:
                counts = RunStatistics.from_json(each.values).total.values()
                id_ = make_key(each.host, each.template, each.question)
                pages[id_] = pages.get(id_, 0) + max((count.pages for count in counts), default=0)
        return pages


def _get_key(statistics: Statistics) -> Key:
    return statistics.host, statistics.template, statistics.question
