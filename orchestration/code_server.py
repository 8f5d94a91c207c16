"""`python -m orchestration.code_server PORT`: serve the definitions of all jobs to Dagster, and follow their changes.

A template process loads the definitions and forks a child that serves them over gRPC. When jobs change, the template
builds what has changed and forks another child; once that one answers, the earlier one is stopped. Both listen on the
same port (SO_REUSEPORT). The webserver and the daemon notice the id of the new server and load its definitions; until
the earlier one has ended, both have its id, for a client that saw the new one could still load the earlier definitions.

The template has no threads and, when it forks, no database connections.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NoReturn
from uuid import uuid4

import structlog

from core.definitions.change_reader import ChangeReader, delete_old_changes
from core.errors import Unavailable
from core.infra import logs
from core.infra.database import open_database
from core.infra.forks import fork
from core.infra.settings import Settings
from core.lifecycle.outlines.outlines import store_missing_outlines
from orchestration.dagster_internals import CodeServer, import_before_fork, serialize_definitions
from orchestration.definitions_builder import Outlines, load_outlines
from orchestration.instance import LOCATION, open_few_connections

log = structlog.get_logger()

HOST = "127.0.0.1"
ROOT = Path(__file__).resolve().parents[1]
POLL_SECONDS = 1.0
READY_SECONDS = 60.0
RETRY_SECONDS = 30.0
STOP_SECONDS = 10.0
CLEAN_SECONDS = 3600.0


def main() -> None:
    logs.configure("code")
    import_before_fork()
    settings = Settings()
    open_few_connections(settings, settings.database.dagster_connections)
    signal.signal(signal.SIGTERM, _raise_exit)
    template = Template(int(sys.argv[1]))
    try:
        template.run()
    finally:
        template.stop()


def _raise_exit(_number: int, _frame: object) -> NoReturn:
    raise SystemExit(0)


class Template:
    """Keeps the built definitions, and the child that serves them."""

    def __init__(self, port: int) -> None:
        from orchestration import definitions  # reads the database

        self._port = port
        self._served = definitions
        self._database = open_database(Settings(), connections=1)
        self._idle = self._database.watch_commits()
        self._reader = ChangeReader()
        self._serialized = serialize_definitions(definitions.definitions)
        self._child: int | None = None
        self._lifeline = -1  # carries a byte when the earlier child has ended; closed with the template
        self._child_id = self._announced_id = ""
        self._retired: dict[int, float] = {}
        self._is_stale = False
        self._next_update = self._next_cleaning = 0.0

    def run(self) -> None:
        while True:
            self._reap()
            if self._child is None:
                self._replace_child()
            self._announce()
            if time.monotonic() >= self._next_update:
                self._follow_changes()
            time.sleep(POLL_SECONDS)

    def stop(self) -> None:
        """Stop all children: with SIGTERM, and with SIGKILL when they take too long."""
        self._retire_child()
        deadline = time.monotonic() + STOP_SECONDS
        while self._retired:
            self._reap()
            if time.monotonic() > deadline:
                for pid in self._retired:
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)

    def _follow_changes(self) -> None:
        """Serve new definitions if there were changes; a failure is logged, and repeated after a while."""
        started = time.monotonic()
        try:
            outlines = self._load_changed()
            if outlines is not None:
                self._served.definitions = self._served.builder.build(outlines)
                self._serialized = serialize_definitions(self._served.definitions)
                gc.collect()  # the definitions before them are full of cycles
                self._replace_child()
                log.info("definitions changed", jobs=len(outlines.jobs), seconds=round(time.monotonic() - started, 2))
        except Unavailable as error:
            log.warning("changes of jobs cannot be read", reason=error.sentence)
            self._is_stale = True  # the reader may have reported a change already
        except Exception:
            log.exception("the definitions could not be replaced: the earlier ones are served")
            self._is_stale = True
            self._next_update = time.monotonic() + RETRY_SECONDS
        else:
            # at most half of the time, also when jobs change all the time
            self._next_update = 2 * time.monotonic() - started

    def _load_changed(self) -> Outlines | None:
        """Return the outlines if they differ from those that are served."""
        if time.monotonic() >= self._next_cleaning:
            with self._database.write() as session:
                delete_old_changes(session)
                store_missing_outlines(session, self._served.loader)
            self._next_cleaning = time.monotonic() + CLEAN_SECONDS
        if self._idle.is_resting() and not self._is_stale:
            return None
        with self._database.read() as session:
            if not self._reader.has_changes(session) and not self._is_stale:
                self._idle.rest()
                return None
            outlines = load_outlines(session, self._served.loader)
        is_stale, self._is_stale = self._is_stale, False
        return outlines if is_stale or self._served.builder.has_changed(outlines) else None

    def _replace_child(self) -> None:
        """Fork a child, and retire the one before it as soon as the new one answers."""
        self._database.close()
        self._idle.close()
        server_id = str(uuid4())
        ready, report = os.pipe()
        lifeline, hold = os.pipe()
        serve = partial(self._serve, self._announced_id or server_id, server_id, report, lifeline, (ready, hold))
        pid = fork("spindle orchestration.code_server", serve)
        os.close(report)
        os.close(lifeline)
        readable, _, _ = select.select([ready], [], [], READY_SECONDS)
        answers = bool(readable) and bool(os.read(ready, 1))
        os.close(ready)
        if not answers:
            os.close(hold)
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            self._retired[pid] = 0.0
            raise ChildFailed("the new code server did not answer")
        self._retire_child()
        self._child, self._child_id, self._lifeline = pid, server_id, hold
        deadline = time.monotonic() + POLL_SECONDS
        while self._retired and time.monotonic() < deadline:
            time.sleep(0.02)
            self._reap()
        self._announce()

    def _announce(self) -> None:
        """Let the child have its own id when no earlier one is left to answer in its place."""
        if self._child is not None and not self._retired and self._announced_id != self._child_id:
            with suppress(BrokenPipeError):  # it has ended, which the next look finds
                os.write(self._lifeline, b"1")
            self._announced_id = self._child_id

    def _serve(self, shown_id: str, server_id: str, report: int, lifeline: int, inherited: Iterable[int]) -> None:
        """In the child: serve until SIGTERM or the end of the template. The definitions are loaded already."""
        for each in (*inherited, *([self._lifeline] if self._child else ())):
            os.close(each)
        server = CodeServer(
            HOST,
            self._port,
            module=self._served.__name__,
            folder=ROOT,
            location=LOCATION,
            serialized=self._serialized,
            server_id=shown_id,
        )
        signal.signal(signal.SIGTERM, lambda _number, _frame: server.end())  # Dagster has replaced the handler before
        threading.Thread(target=_follow_template, args=(lifeline, server, server_id), daemon=True).start()
        server.serve(on_ready=partial(_report_ready, report))

    def _retire_child(self) -> None:
        if self._child is not None:
            with suppress(ProcessLookupError):
                os.kill(self._child, signal.SIGTERM)
            self._retired[self._child] = time.monotonic()
            self._forget_child()

    def _forget_child(self) -> None:
        os.close(self._lifeline)
        self._child = None

    def _reap(self) -> None:
        """Note the children that have ended, and kill retired ones that do not end."""
        for pid in (*self._retired, *([self._child] if self._child else ())):
            if os.waitpid(pid, os.WNOHANG)[0] == 0:
                if time.monotonic() - self._retired.get(pid, time.monotonic()) > RETRY_SECONDS:
                    os.kill(pid, signal.SIGKILL)
                continue
            self._retired.pop(pid, None)
            if pid == self._child:
                self._forget_child()
                log.warning("the code server ended; it is started again")


class ChildFailed(Exception):
    """A child that does not serve."""


def _report_ready(report: int) -> None:
    os.write(report, b"1")
    os.close(report)


def _follow_template(lifeline: int, server: CodeServer, server_id: str) -> None:
    """Take the server's own id when the template says that no earlier server is left, and end with the template."""
    while os.read(lifeline, 1):
        server.show_id(server_id)
    server.end()


if __name__ == "__main__":
    main()
