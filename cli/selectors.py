"""`spindle selectors`: what prompts were proven to mean."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cli.client import Connection, connect

_PATH = "/selectors"


def list_selectors(connection: Connection, host: str | None) -> int:
    """Print the proven selectors by host."""
    with connect(connection) as client:
        found = _get_all(client, host)
    for each in found:
        proven = [f"{field['name']} ({_get_score(field)})" for field in each["fields"]]
        print(f"{each['id']}  {each['host']}  {each['prompt']}{'  pinned' if each['pinned'] else ''}")
        proven += [" ".join((step["action"], step["params"].get("selector", ""))).strip() for step in each["steps"]]
        print(f"    {', '.join(proven)}")
    return 0


def show_selectors(connection: Connection, id_: str) -> int:
    """Print all that is known of proven selectors, as JSON."""
    with connect(connection) as client:
        print(json.dumps(client.get(f"{_PATH}/{id_}"), indent=2, ensure_ascii=False))
    return 0


def pin_selectors(connection: Connection, id_: str) -> int:
    """Let no run replace proven selectors."""
    with connect(connection) as client:
        client.put(f"{_PATH}/{id_}", {"pinned": True})
    print(f"{id_} is pinned.")
    return 0


def edit_selectors(connection: Connection, id_: str, field: str, selector: str, method: str) -> int:
    """Replace the candidates of a field by one selector."""
    with connect(connection) as client:
        fields: list[dict[str, Any]] = client.get(f"{_PATH}/{id_}")["fields"]
        edited = [each for each in fields if each["name"] == field]
        for each in edited:
            each["candidates"] = [{"reading": {"selector": selector, "method": method}, "stability": 100}]
        if not edited:
            print(f"{id_} has no field '{field}'; it has {', '.join(each['name'] for each in fields)}")
            return 1
        client.put(f"{_PATH}/{id_}", {"fields": fields})
    print(f"{field} is read by {selector}.")
    return 0


def delete_selectors(connection: Connection, id_: str) -> int:
    """Delete proven selectors."""
    with connect(connection) as client:
        client.delete(f"{_PATH}/{id_}")
    print(f"{id_} is deleted; the next run asks the model again.")
    return 0


def export_selectors(connection: Connection, file: Path, host: str | None) -> int:
    """Write proven selectors to a lock file in text, sorted by host and id."""
    with connect(connection) as client:
        found = _get_all(client, host)
    records = [{name: value for name, value in each.items() if name != "id"} for each in found]
    file.write_text(json.dumps(records, indent=2, ensure_ascii=False) + "\n")
    print(f"{len(records)} in {file}")
    return 0


def _get_all(client: Any, host: str | None) -> list[dict[str, Any]]:
    return client.get(_PATH, **({"host": host} if host else {}))


def _get_score(field: dict[str, Any]) -> str:
    candidates = field["candidates"]
    return f"{candidates[0]['stability']}" if candidates else "not proven"
