"""The pages that an attempt of an execution could not fetch, as its driver lists them in a file."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from core.infra.storage.protocol import NotStored, Storage, failures_key
from core.tables import Execution
from pipelines.contract.progress import Failure, RequestCount


@dataclass(frozen=True, slots=True)
class FailedPages:
    """A part of the listed pages, and the counts of all failed pages by status and reason."""

    counts: Sequence[RequestCount]
    pages: Sequence[Failure]


def read_failed_pages(
    storage: Storage, execution: Execution, attempt: int, *, after: int = 0, limit: int | None = None
) -> FailedPages:
    """Return at most `limit` pages after the first `after`; none while the attempt has reported no failure."""
    key = failures_key(execution.organization_id, execution.id, attempt)
    try:
        with storage.open(key) as file, io.TextIOWrapper(file, encoding="utf-8") as lines:
            counts = [RequestCount.model_validate(each) for each in json.loads(next(lines))["counts"]]
            shown = islice(lines, after, None if limit is None else after + limit)
            pages = [Failure.model_validate_json(line) for line in shown]
    except NotStored:
        return FailedPages((), ())
    return FailedPages(counts, pages)
