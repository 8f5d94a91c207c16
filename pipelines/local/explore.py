"""The explore stage in one process: a single pass follows the links of all levels, unless these grow too many."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence

import pyarrow as pa

from pipelines.engine.definition import Pass
from pipelines.engine.partial_run import Explored
from pipelines.engine.record_batches import LEVEL, ROW
from pipelines.engine.segment import build_next_pass, fetches_alike, fits_in_task, follow_links

Run = Callable[[Pass, pa.Table], pa.Table]


class TooManyPages(Exception):
    """The next level of an explore has too many pages for one process."""

    def __init__(self, explored: Explored) -> None:
        super().__init__("the next level has too many pages")
        self.explored = explored


def run_levels(task: Pass, entering: pa.Table, run: Run, most_pages: int | None, stop: threading.Event) -> pa.Table:
    """Return the finished rows of the pass and of all levels of its explores, which see every page once.

    Raise TooManyPages before a level of more than `most_pages`. Once `stop` is set, no further level is fetched.
    """
    keys = [*task.get_explorations()]
    most_pages = None if fits_in_task(task, most_pages) else most_pages
    alike = fetches_alike(task, build_next_pass(task, keys[0], 1))
    found = [run(_follow(task, keys[0], most_pages) if alike else task, entering)]
    for key in keys:
        if stop.is_set():
            break
        links = pa.concat_tables(_select_kind(records, key) for records in found)
        level: int = max(links.column(LEVEL).to_pylist(), default=0)
        if level and most_pages is not None and (_is_handed_over(alike, key, keys) or links.num_rows > most_pages):
            raise TooManyPages(Explored(found, key))
        if level:
            following = _follow(build_next_pass(task, key, level - 1), key, most_pages)
            found.append(run(following, _mark_visited(links)))
            is_over = any(_select_kind(found[-1], key).column(LEVEL).to_pylist())
            if most_pages is not None and is_over and not stop.is_set():
                raise TooManyPages(Explored(found, key))
    return pa.concat_tables(_select_kind(records, ROW) for records in found)


def _is_handed_over(alike: bool, key: str, keys: Sequence[str]) -> bool:
    """Return whether the first pass has followed the explore, and handed over a level that is too large."""
    return alike and key == keys[0]


def _follow(task: Pass, key: str, most_pages: int | None) -> Pass:
    return follow_links(task, key, most_pages, os.cpu_count() or 1)


def _mark_visited(links: pa.Table) -> pa.Table:
    """Return the links to follow and, as links without a row, the visited pages."""
    cells = zip(links.column(LEVEL).to_pylist(), links.column("_ordinal").to_pylist(), strict=True)
    ordinals = pa.array([ordinal if level else None for level, ordinal in cells], pa.list_(pa.int64()))
    return links.set_column(links.column_names.index("_ordinal"), "_ordinal", ordinals).drop_columns([LEVEL])


def _select_kind(records: pa.Table, kind: str) -> pa.Table:
    """Return the records of one kind: finished rows, or the links of one explore."""
    own = records.column(kind).drop_null()
    fields: Sequence[pa.Field] = [*own.type]
    return pa.table(own.flatten(), schema=pa.schema(fields))
