"""`spindle restore`: an earlier version of a job's table becomes the current one."""

from __future__ import annotations

from typing import Any

from cli.client import Client, ClientError, Connection, connect
from cli.jobs import find_job
from cli.terminal import format_count


def restore(connection: Connection, job: str, version: int) -> int:
    """Make an earlier version current again and print the number of the new one."""
    with connect(connection) as client:
        made = client.post(f"/datasets/{find_output(client, job)}/versions/{version}/restore", {})
    rows = "" if made["rowCount"] is None else f", with {format_count(made['rowCount'], 'rows')}"
    print(f"{job} has the rows of version {version} again: version {made['version']}{rows}.")
    return 0


def find_output(client: Client, job: str) -> str:
    """Return the id of the dataset that a job publishes."""
    record: dict[str, Any] = client.get(find_job(client, job))
    if record["outputDatasetId"] is None:
        raise ClientError(f"The job '{job}' has published no table. Start it with `spindle execute`.")
    return record["outputDatasetId"]
