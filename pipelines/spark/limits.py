"""Limits of rows: how many links suffice for the first rows that a pipeline keeps."""

from __future__ import annotations

from collections.abc import Sequence

from pipelines.planning.plan import Step
from pipelines.planning.stage import LinkStage, RowStage, TableStage


def find_link_limits(steps: Sequence[Step], limit: int | None) -> dict[str, int]:
    """Return, by the key of a step that follows links, how many of its links suffice for a limit after it.

    A link gives at least one row, and rows are in the order of their links, unless a later stage drops or reorders
    them. `limit` is the number of rows that are kept in the end.
    """
    limits = dict[str, int]()
    wanted = limit
    for step in reversed(steps):
        stage = step.stage
        if isinstance(stage, LinkStage):
            if wanted is not None:
                limits[step.key] = wanted
            if stage.drops_rows_without_link or stage.max_depth is not None:  # an explore drops repeated pages
                wanted = None
        elif isinstance(stage, TableStage):
            kept = [number for number in (wanted, stage.max_rows) if number is not None]
            wanted = min(kept) if stage.max_rows is not None else None
        elif stage is not None and not (isinstance(stage, RowStage) and stage.keeps_rows):
            wanted = None
    return limits
