"""`spindle reset`: a job forgets the pages that it knows."""

from __future__ import annotations

from cli.client import Connection, connect
from cli.jobs import find_job


def reset(connection: Connection, job: str) -> int:
    """Let the next execution of an incremental job ask for all pages again."""
    with connect(connection) as client:
        client.post(f"{find_job(client, job)}/reset", {})
    print(f"{job} asks for all pages again; its rows stay.")
    return 0
