"""`spindle backfill` and `spindle partitions`: the partitions of a job on a server, and executions of many of them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from cli.client import NEGATIVE_RESULT, ClientError, Connection, connect
from cli.jobs import find_job
from cli.terminal import escape_text, print_blocks

POLL_SECONDS = 2.0


def backfill(connection: Connection, job: str, body: Mapping[str, Any], follow: bool) -> int:
    """Return 0 when the backfill is accepted or, with `follow`, completed; else NEGATIVE_RESULT."""
    with connect(connection) as client:
        path = f"{find_job(client, job)}/backfills"
        found = client.post(path, {name: value for name, value in body.items() if value})
        print(f"Backfill {found['id']} of {len(found['partitions'])} partitions was accepted.")
        if not follow:
            return 0
        counts = None
        try:
            while found["state"] == "RUNNING":
                time.sleep(POLL_SECONDS)
                found = client.get(f"{path}/{found['id']}")
                if counts != (counts := found["counts"]):
                    print(_describe_counts(counts))
        except KeyboardInterrupt:
            print("No longer following the backfill, which goes on.")
            return 130
    return _print_outcome(found)


def cancel_backfill(connection: Connection, job: str, backfill_id: str) -> int:
    with connect(connection) as client:
        found = client.post(f"{find_job(client, job)}/backfills/{backfill_id}/cancel", {})
    print(f"Backfill {found['id']}: {found['state']} ({_describe_counts(found['counts'])})")
    return 0


def list_partitions(connection: Connection, job: str, state: str | None) -> int:
    with connect(connection) as client:
        path = find_job(client, job)
        found = client.get(f"{path}/partitions", **({"state": state} if state else {}))
        if not found and not client.get(path)["partitions"]:
            raise ClientError(f"The job '{job}' has no partitions.")
    blocks = [
        (
            [each["key"], each["state"], "" if each["rows"] is None else str(each["rows"]), each["executionId"] or ""],
            [each["errorMessage"]] if each["state"] == "FAILED" and each["errorMessage"] else [],
        )
        for each in found
    ]
    print_blocks(["Partition", "State", "Rows", "Execution"], blocks)
    return 0


def _print_outcome(found: Mapping[str, Any]) -> int:
    print(f"{found['state'].capitalize()}: {_describe_counts(found['counts'])}.")
    for each in found["partitions"]:
        if each["errorMessage"]:
            print(escape_text(f"{each['key']}: {each['errorMessage']}"))
    return 0 if found["state"] == "COMPLETED" else NEGATIVE_RESULT


def _describe_counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {state.lower()}" for state, number in sorted(counts.items()))
