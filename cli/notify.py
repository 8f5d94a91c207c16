"""`spindle notify`: the notification rules of projects."""

from __future__ import annotations

from typing import Any

from cli.client import NEGATIVE_RESULT, Client, ClientError, Connection, connect
from cli.terminal import escape_text
from pipelines.language.names import suggest


def send_test(connection: Connection, rule: str) -> int:
    """Send a test message by the rule PROJECT/RULE and print how its target has answered."""
    with connect(connection) as client:
        sent = client.post(f"{_find_rule(client, rule)}/test", {})
    last: dict[str, Any] = sent["tries"][-1]
    if sent["state"] == "DELIVERED":
        print(f"The target of {rule} has accepted a message in {last['milliseconds']} ms.")
        return 0
    print(escape_text(f"The target of {rule} was not reached. {last['error']}"))
    return NEGATIVE_RESULT


def _find_rule(client: Client, name: str) -> str:
    """Return the path of a rule; names of projects may contain slashes."""
    project, _, wanted = name.rpartition("/")
    names: list[str] = []
    for each in client.get("/projects"):
        path = f"/projects/id/{each['id']}/notifications"
        if each["name"] == project:
            names = [rule["name"] for rule in client.get(path)]
            if wanted in names:
                return f"{path}/{wanted}"
    similar = suggest(wanted, names)
    hint = f"Did you mean {' or '.join(similar)}?" if similar else "Rules are named as PROJECT/RULE."
    raise ClientError(f"There is no notification rule '{name}'. {hint}")
