"""The file of the pages that could not be fetched: one JSON object a line, the first with the counts of all."""

from __future__ import annotations

import json
import logging

from driver.progress import RunProgress
from pipelines.contract.progress import RequestCount
from pipelines.filesystem import write_file

_log = logging.getLogger(__name__)


class FailedPagesFile:
    """A file in the storage of an execution, which is written again when further pages have failed."""

    def __init__(self, address: str | None) -> None:
        self._address = address
        self._written: list[RequestCount] = []

    def write(self, progress: RunProgress) -> None:
        """Write the counts of failed pages and the first of the pages, unless the file has them."""
        counts = progress.list_failure_counts()
        if self._address is None or counts == self._written:
            return
        pages = (page.to_json() for page in progress.list_failed_pages())
        lines = [{"counts": [each.to_json() for each in counts]}, *pages]
        content = "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines)
        try:
            write_file(self._address, content.encode())
        except OSError:  # the execution continues without the list
            _log.exception("the list of failed pages could not be written")
        else:
            self._written = counts
