"""The log of a driver's pod, copied to a file of this machine while the driver writes it.

The pod has one stream for the log and for the messages of Dagster Pipes. A message begins with a mark that only the
driver and the service know, so that no text of a page can pass for one; messages go to a file of their own. A pod that
serves several executions marks their beginnings and ends, and the copy has one of them.
"""

from __future__ import annotations

import re
import threading
import time
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import IO, Any

import structlog
from urllib3.exceptions import HTTPError

from core.errors import SpindleError
from core.infra.cluster import Cluster, split_lines
from driver.messages import MARKED_LINE, Boundary

RETRY_SECONDS = 1.0
OVERLAP_SECONDS = 5  # read again after a lost connection: the clocks of machines differ
_TIMED = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}(?:Z|[+-]\d\d:\d\d)) ")

log = structlog.get_logger()


class PodLog:
    """Copies the log of one execution in a thread, until it or its pod has ended.

    Without `has_begun`, the earlier lines of the pod are left out. An execution that is given to a running pod begins
    after `since`. The exit code is known where the pod outlives the execution.
    """

    def __init__(
        self,
        cluster: Cluster,
        name: str,
        path: Path,
        messages: Path,
        mark: str,
        has_begun: bool = True,
        since: float | None = None,
    ) -> None:
        self._cluster = cluster
        self._name = name
        self._path, self._messages = path, messages
        self._mark = mark.encode()
        self._has_begun = has_begun
        self._since = since
        self.exit_code: int | None = None
        self._last = b""  # time of the last line that was read
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, name=f"log of {name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def finish(self, seconds: float) -> None:
        """Wait for the last lines of a pod that has ended, then copy no more."""
        self._thread.join(seconds)
        self._ended.set()

    def copy_once(self) -> None:
        """Copy the log that the pod has written, where no thread does: the run that followed it has ended."""
        stream = self._cluster.open_log(self._name)
        if stream is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("wb") as file:
                self._copy(stream, file, None)

    def _follow(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        # the whole log: an earlier process may have copied a part of it
        with self._path.open("wb", buffering=0) as file, self._messages.open("ab", buffering=0) as messages:
            while not self._ended.is_set():
                try:
                    stream = self._cluster.open_log(self._name, follow=True, since_seconds=self._get_overlap())
                    if stream is not None:
                        self._copy(stream, file, messages)
                    if self.exit_code is not None or self._has_ended():
                        return
                except HTTPError:  # silence for a while, or a lost connection
                    continue
                except SpindleError as error:
                    log.warning("the log of a pod is not read", pod=self._name, reason=error.sentence)
                self._ended.wait(RETRY_SECONDS)

    def _has_ended(self) -> bool:
        pod = self._cluster.find_pod(self._name)
        return pod is None or pod.get("status", {}).get("phase") in ("Succeeded", "Failed")

    def _get_overlap(self) -> int | None:
        at = datetime.fromisoformat(self._last.decode()).timestamp() if self._last else self._since
        return max(1, int(time.time() - at) + OVERLAP_SECONDS) if at else None

    def _copy(self, stream: Any, file: IO[bytes], messages: IO[bytes] | None) -> None:
        before = self._last
        with closing(stream):
            for line in split_lines(stream.stream()):
                at, text = _split_time(line)
                if at and at <= before:
                    continue  # copied before the connection was lost
                self._last = at or self._last
                message = MARKED_LINE.fullmatch(text)
                if message is not None and message[1] == self._mark:
                    boundary = Boundary.parse(message[2])
                    if boundary is None and messages is not None:
                        messages.write(message[2])
                    elif boundary is not None:
                        self._has_begun, self.exit_code = True, boundary.exit_code
                    if self.exit_code is not None:
                        return
                elif self._has_begun:
                    file.write(text)


def _split_time(line: bytes) -> tuple[bytes, bytes]:
    """Return the time that the cluster has put before a line, and the line as the driver wrote it."""
    found = _TIMED.match(line)
    return (found[1], line[found.end() :]) if found else (b"", line)
