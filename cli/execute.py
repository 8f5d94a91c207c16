"""`spindle execute`: starts a job on a server and, if asked, follows it to its end."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from rich.console import Console

from cli.client import NEGATIVE, Client, ClientError, Connection, Unreachable, connect
from cli.follow import Json, follow
from cli.parameters import parameters
from cli.terminal import shown

POLL_SECONDS = 1.0
PATIENCE_SECONDS = 60.0
LOG_LINES = 10_000


def execute(connection: Connection, job: str, parameter: list[str], following: bool) -> int:
    """Returns 0 once the execution is accepted, or, when following, completed; 3 when it failed."""
    console = Console(highlight=False, soft_wrap=True)
    with connect(connection) as client:
        path = _path(client, job)
        execution = client.post(f"{path}/execute", {"parameters": parameters(parameter)})["executionId"]
        console.print(f"Execution {execution} was accepted.")
        return _follow(console, client, job, f"{path}/executions/{execution}") if following else 0


def _path(client: Client, name: str) -> str:
    """The job's path; its name comes behind its project's, and either may contain a slash."""
    for project in client.get("/projects"):
        if not name.startswith(f"{project['name']}/"):
            continue
        jobs = f"/projects/id/{project['id']}/jobs"
        found = [job["id"] for job in client.get(jobs) if name == f"{project['name']}/{job['name']}"]
        if len(found) > 1:
            raise ClientError(f"There is more than one job '{name}'. Rename all but one.")
        if found:
            return f"{jobs}/{found[0]}"
    raise ClientError(f"There is no job '{name}'. Jobs are named as PROJECT/JOB.")


def _follow(console: Console, client: Client, title: str, path: str) -> int:
    log = _Log(client, path)
    try:
        status = follow(console, title, lambda: _patiently(lambda: client.get(f"{path}/status")), _pause, log.news)
    except KeyboardInterrupt:
        console.print("The execution goes on; only following it has ended.")
        return 130
    console.print(shown(_sentence(status)))
    return 0 if status["status"] == "COMPLETED" else NEGATIVE


class _Log:
    """The lines of an execution's log that were not told yet."""

    def __init__(self, client: Client, path: str) -> None:
        self._client = client
        self._path = path
        self._told: Sequence[str] = ()

    def news(self) -> Sequence[str]:
        lines = _patiently(lambda: self._client.get(f"{self._path}/logs", tail=LOG_LINES)["logs"])
        told, self._told = self._told, lines
        if len(lines) < LOG_LINES or not told:
            return lines[len(told) :]
        # of a longer log only the end is seen, and it has moved on: what was told last is looked for in it
        at = next((at for at in range(len(lines), 0, -1) if lines[at - 1] == told[-1]), 0)
        return lines[at:]


def _patiently(ask: Callable[[], Any]) -> Any:
    """A server that is being started again does not end the following."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return ask()
        except Unreachable:
            if time.monotonic() > deadline:
                raise
            _pause()


def _pause() -> None:
    time.sleep(POLL_SECONDS)


def _sentence(status: Json) -> str:
    seconds = status.get("executionTimeSeconds")
    took = "" if seconds is None else f" after {seconds} s"
    if status["status"] == "COMPLETED":
        return f"Completed{took}."
    return f"Failed{took}: {status.get('errorMessage') or 'no reason was given'}"
