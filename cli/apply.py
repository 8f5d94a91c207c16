"""`spindle apply`: create, change and delete records of a server so that it matches a file."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from cli.client import NEGATIVE_RESULT, Client, ClientError, Connection, connect
from cli.declaration import KINDS, Declaration, Key, format_name, get_parent, read_declaration
from cli.export import ServerState
from cli.terminal import escape_text

STYLES = {"+": "green", "~": "yellow", "-": "red"}
MAX_VALUE_LENGTH = 100


@dataclass(frozen=True, slots=True)
class Change:
    """A change to one record: create it (`+`), change these fields (`~`) or delete it (`-`)."""

    mark: str
    key: Key
    values: Mapping[str, Any]
    before: Mapping[str, Any]

    def format_lines(self) -> Iterator[tuple[str, str]]:
        """Yield a line for the record and lines for its changed fields, each with its mark."""
        yield self.mark, f"{self.key[0]} {format_name(self.key)}"
        for name, value in self.values.items() if self.mark == "~" else ():
            old = self.before.get(name)
            if isinstance(value, str) and isinstance(old, str) and "\n" in value + old:
                yield " ", f"    {name}:"
                for line in list(difflib.unified_diff(old.splitlines(), value.splitlines(), n=1, lineterm=""))[2:]:
                    yield line[0] if line[0] in STYLES else " ", f"      {line}"
            else:
                yield " ", f"    {name}: {_format_value(old)} → {_format_value(value)}"


def apply(connection: Connection, file: Path, dry_run: bool, prune: bool) -> int:
    """Return 0, or NEGATIVE_RESULT when a dry run finds changes; raise ClientError at the first failure."""
    declaration, console = read_declaration(file), Console(highlight=False, soft_wrap=True)
    with connect(connection) as client:
        state = ServerState(client)
        changes = list(_plan_changes(declaration, state, file.parent, prune))
        for change in changes:
            for mark, line in change.format_lines():
                console.print(escape_text(f"{change.mark} {line}" if line[0] != " " else line, STYLES.get(mark, "")))
            if not dry_run:
                _apply_change(client, state, change)
        for warning in () if dry_run else _read_warnings(client, state, changes):
            console.print(escape_text(f"warning: {warning}", "yellow"))
    done = {mark: sum(change.mark == mark for change in changes) for mark in STYLES}
    tense = "to be " if dry_run else ""
    console.print(f"{tense}created {done['+']}, {tense}changed {done['~']}, {tense}deleted {done['-']}".capitalize())
    return NEGATIVE_RESULT if dry_run and changes else 0


def _plan_changes(declaration: Declaration, state: ServerState, folder: Path, prune: bool) -> Iterator[Change]:
    """Yield changes in an order in which references exist: creations by KINDS, then deletions in reverse."""
    declared = declaration.read_records(folder)
    state.check_unique(declared)
    state.check_unique(key for key in state.ambiguous if prune and declaration.owns(key))
    for key in sorted(declared, key=_get_rank):
        values = _resolve_agent_name(key, declared[key], {*declared, *state.records, *state.ambiguous})
        state.check_unique_name("agent", values.get("agent"))
        existing = state.records.get(key)
        if existing is None:
            yield Change("+", key, values, {})
        elif changed := {name: value for name, value in values.items() if value != existing.values.get(name)}:
            yield Change("~", key, changed, existing.values)
    surplus = [key for key in state.records if prune and key not in declared and declaration.owns(key)]
    for key in sorted(surplus, key=_get_rank, reverse=True):  # deleting a parent deletes its children
        yield Change("-", key, {}, {})


def _resolve_agent_name(key: Key, values: Mapping[str, Any], known: set[Key]) -> dict[str, Any]:
    """Complete the agent's name with its category; the name alone suffices when it is unique."""
    if "agent" not in values:
        return {**values}
    agents, name = [key for key in known if key[0] == "agent"], values["agent"]
    same = {format_name(agent) for agent in agents if name == format_name(agent)}
    same = same or {format_name(agent) for agent in agents if name == agent[2]}
    if len(same) != 1:
        raise ClientError(f"job '{format_name(key)}': there is {'more than one' if same else 'no'} agent '{name}'.")
    return {**values, "agent": same.pop()}


def _apply_change(client: Client, state: ServerState, change: Change) -> None:
    try:
        body, path = _create_body(state, change), _get_path(state, change)
        if change.mark == "+":
            state.add(change.key, client.post(path, body)["id"])
        elif change.mark == "~":
            client.put(f"{path}/{state.records[change.key].id}", body)
        else:
            client.delete(f"{path}/{state.records[change.key].id}")
    except ClientError as error:
        raise type(error)(f"{change.key[0]} '{format_name(change.key)}': {error}") from None


def _read_warnings(client: Client, state: ServerState, changes: Sequence[Change]) -> Iterator[str]:
    """Yield the service's warnings about changed agents, after the extensions that they call exist."""
    touched = [each.key for each in changes if each.key[0] == "agent" and each.mark != "-"]
    touched += [parent for each in changes if each.key[0] == "extension" and (parent := get_parent(each.key))]
    for key in dict.fromkeys(touched):
        path = _get_path(state, Change("~", key, {}, {}))
        for warning in client.put(f"{path}/{state.records[key].id}", {}).get("warnings", ()):
            yield f"agent '{format_name(key)}': {warning}"


def _get_path(state: ServerState, change: Change) -> str:
    kind, category, *_ = change.key
    if kind == "job":
        return f"/projects/id/{state.get_id('project', change.key[1])}/jobs"
    if kind == "agent":
        return (
            f"/agents/{state.get_id('category', category) if category else 'none'}" if change.mark == "~" else "/agents"
        )
    if kind == "extension":
        agent: Key = ("agent", *change.key[1:-1])
        return f"/agents/{state.records[agent].id}/python-extensions" if change.mark == "+" else "/python-extensions"
    collection = "/projects" if kind == "project" else "/categories"
    return collection if change.mark == "+" else f"{collection}/id"


def _create_body(state: ServerState, change: Change) -> dict[str, Any]:
    """Return the request body: the values with ids in place of names."""
    body = dict(change.values)
    if "pipeline" in body:
        body["pipelineYaml"] = body.pop("pipeline")
    for field, kind in (("category", "category"), ("agent", "agent"), ("inputDataset", "dataset")):
        if field in body:
            body[f"{field}Id"] = state.get_id(kind, body.pop(field))
    if "cloudCredentials" in body:
        body["cloudCredentialIds"] = [state.get_id("credential", name) for name in body.pop("cloudCredentials")]
    return body


def _get_rank(key: Key) -> int:
    return KINDS.index(key[0])


def _format_value(value: Any) -> str:
    text = "nothing" if value is None else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= MAX_VALUE_LENGTH else f"{text[:MAX_VALUE_LENGTH]}…"
