"""Totals of all tasks: statistics of the values of selectors, and the numbers of pages by means."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from pipelines.coordination.messages import Readings, Statistics
from pipelines.inference.drift import RunStatistics
from pipelines.inference.records import make_key

Key = tuple[str, str, str]  # host, template, question


class Tallies:
    """The last totals of every task by version of selectors; a task that runs again replaces those of its last attempt.

    A page counts for every version that has read it.
    """

    def __init__(self) -> None:
        self._statistics: dict[str, list[Statistics]] = {}
        self._served: dict[str, dict[str, int]] = {}

    def take(self, task: str, readings: Readings) -> None:
        """Take totals of a task; those of other templates stay."""
        replaced = {(_get_key(each), each.version) for each in readings.statistics}
        known = self._statistics.get(task, ())
        kept = [each for each in known if (_get_key(each), each.version) not in replaced]
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

    def count_doubted(self, key: Key, field: str, since: int) -> int:
        """Return the number of doubtful values of a field that a version of selectors and the later ones have read."""
        versions = {each.version for known in [*self._statistics.values()] for each in known}
        counts = (self.merge(key, each).total.get(field) for each in versions if each >= since)
        return sum(max((of.doubted for of in each.measures.values()), default=0) for each in counts if each)

    def count_served(self) -> Mapping[str, int]:
        """Return the number of answered questions about pages, by means."""
        served: Counter[str] = Counter()
        for each in [*self._served.values()]:
            served.update(each)
        return dict(served)

    def count_pages(self) -> Mapping[str, int]:
        """Return the number of pages that the last version of a proven record has read, by its id."""
        pages: dict[str, int] = {}
        for statistics in [*self._statistics.values()]:
            last = {_get_key(each): each for each in sorted(statistics, key=lambda each: each.version)}
            for each in last.values():
                counts = RunStatistics.from_json(each.values).total.values()
                id_ = make_key(each.host, each.template, each.question)
                pages[id_] = pages.get(id_, 0) + max((count.pages for count in counts), default=0)
        return pages


def _get_key(statistics: Statistics) -> Key:
    return statistics.host, statistics.template, statistics.question
