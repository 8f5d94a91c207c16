"""`spindle export`: what there is on a server, as a file that `spindle apply` takes."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from cli.client import ClientError, Connection, connect
from cli.declaration import Key, around
from cli.state import State

SECTIONS = {"category": "categories", "agent": "agents", "project": "projects"}
INNER_SECTIONS = {"extension": "extensions", "job": "jobs"}
LEFT_OUT: tuple[Any, ...] = (None, {}, [])


def export(connection: Connection, output: Path | None) -> int:
    """Writes the file, or prints it."""
    with connect(connection) as client:
        state = State(client)
    state.check_distinct(state.repeated)
    document: dict[str, list[dict[str, Any]]] = {section: [] for section in SECTIONS.values()}
    written: dict[Key, dict[str, Any]] = {}
    for key, entity in state.entities.items():
        written[key] = values = _told(entity.values)
        if outer := around(key):
            written[outer].setdefault(INNER_SECTIONS[key[0]], []).append(values)
        else:
            document[SECTIONS[key[0]]].append(values)
    _write(yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=10_000), output)
    return 0


def _told(values: Mapping[str, Any]) -> dict[str, Any]:
    """Without what is empty, and without `enabled` where it says what everybody expects."""
    told = {name: value for name, value in values.items() if value not in LEFT_OUT}
    if told.get("enabled") is True:
        del told["enabled"]
    return told


def _write(text: str, output: Path | None) -> None:
    if output is None:
        sys.stdout.write(text)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ClientError(f"{output} cannot be written: {error.strerror}.") from None


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as such."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)
