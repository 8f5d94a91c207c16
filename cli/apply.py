"""`spindle apply`: makes a server have what a file declares, and shows what that changes."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from cli.client import NEGATIVE, Client, ClientError, Connection, connect
from cli.declaration import KINDS, Declaration, Key, around, full_name, read_declaration
from cli.state import State
from cli.terminal import shown

STYLES = {"+": "green", "~": "yellow", "-": "red"}
LONGEST_SHOWN = 100


@dataclass(frozen=True, slots=True)
class Change:
    """What is to be done to one record: made (`+`), changed in these fields (`~`) or deleted (`-`)."""

    mark: str
    key: Key
    values: Mapping[str, Any]
    before: Mapping[str, Any]

    def lines(self) -> Iterator[tuple[str, str]]:
        """A line for the record, and what changes of its fields, each with its mark."""
        yield self.mark, f"{self.key[0]} {full_name(self.key)}"
        for name, value in self.values.items() if self.mark == "~" else ():
            old = self.before.get(name)
            if isinstance(value, str) and isinstance(old, str) and "\n" in value + old:
                yield " ", f"    {name}:"
                for line in list(difflib.unified_diff(old.splitlines(), value.splitlines(), n=1, lineterm=""))[2:]:
                    yield line[0] if line[0] in STYLES else " ", f"      {line}"
            else:
                yield " ", f"    {name}: {_shown(old)} → {_shown(value)}"


def apply(connection: Connection, file: Path, dry_run: bool, prune: bool) -> int:
    """Returns 0, or 3 when a dry run finds something to do; raises ClientError at the first thing that fails."""
    declaration, console = read_declaration(file), Console(highlight=False, soft_wrap=True)
    with connect(connection) as client:
        state = State(client)
        changes = list(_changes(declaration, state, file.parent, prune))
        for change in changes:
            for mark, line in change.lines():
                console.print(shown(f"{change.mark} {line}" if line[0] != " " else line, STYLES.get(mark, "")))
            if not dry_run:
                _perform(client, state, change)
        for warning in () if dry_run else _warnings(client, state, changes):
            console.print(shown(f"warning: {warning}", "yellow"))
    done = {mark: sum(change.mark == mark for change in changes) for mark in STYLES}
    tense = "to be " if dry_run else ""
    console.print(f"{tense}created {done['+']}, {tense}changed {done['~']}, {tense}deleted {done['-']}".capitalize())
    return NEGATIVE if dry_run and changes else 0


def _changes(declaration: Declaration, state: State, folder: Path, prune: bool) -> Iterator[Change]:
    """What is referred to before what refers to it; deletions last, the other way round."""
    declared = declaration.entities(folder)
    state.check_distinct(declared)
    state.check_distinct(key for key in state.repeated if prune and declaration.owns(key))
    for key in sorted(declared, key=_rank):
        wanted = _with_full_names(key, declared[key], {*declared, *state.entities, *state.repeated})
        state.check_named("agent", wanted.get("agent"))
        there = state.entities.get(key)
        if there is None:
            yield Change("+", key, wanted, {})
        elif differing := {name: value for name, value in wanted.items() if value != there.values.get(name)}:
            yield Change("~", key, differing, there.values)
    surplus = [key for key in state.entities if prune and key not in declared and declaration.owns(key)]
    for key in sorted(surplus, key=_rank, reverse=True):  # what stands within one of them goes with it
        yield Change("-", key, {}, {})


def _with_full_names(key: Key, values: Mapping[str, Any], known: set[Key]) -> dict[str, Any]:
    """The values, a job's agent with its category: without one where its name alone leaves no doubt."""
    if "agent" not in values:
        return {**values}
    agents, name = [key for key in known if key[0] == "agent"], values["agent"]
    same = {full_name(agent) for agent in agents if name == full_name(agent)}
    same = same or {full_name(agent) for agent in agents if name == agent[2]}
    if len(same) != 1:
        raise ClientError(f"job '{full_name(key)}': there is {'more than one' if same else 'no'} agent '{name}'.")
    return {**values, "agent": same.pop()}


def _perform(client: Client, state: State, change: Change) -> None:
    try:
        body, path = _body(state, change), _path(state, change)
        if change.mark == "+":
            state.made(change.key, client.post(path, body)["id"])
        elif change.mark == "~":
            client.put(f"{path}/{state.entities[change.key].id}", body)
        else:
            client.delete(f"{path}/{state.entities[change.key].id}")
    except ClientError as error:
        raise type(error)(f"{change.key[0]} '{full_name(change.key)}': {error}") from None


def _warnings(client: Client, state: State, changes: Sequence[Change]) -> Iterator[str]:
    """What the service warns of, asked once the extensions that pipelines call are there."""
    touched = [each.key for each in changes if each.key[0] == "agent" and each.mark != "-"]
    touched += [outer for each in changes if each.key[0] == "extension" and (outer := around(each.key))]
    for key in dict.fromkeys(touched):
        path = _path(state, Change("~", key, {}, {}))
        for warning in client.put(f"{path}/{state.entities[key].id}", {}).get("warnings", ()):
            yield f"agent '{full_name(key)}': {warning}"


def _path(state: State, change: Change) -> str:
    kind, category, *_ = change.key
    if kind == "job":
        return f"/projects/id/{state.id_of('project', change.key[1])}/jobs"
    if kind == "agent":
        return (
            f"/agents/{state.id_of('category', category) if category else 'none'}" if change.mark == "~" else "/agents"
        )
    if kind == "extension":
        agent: Key = ("agent", *change.key[1:-1])
        return f"/agents/{state.entities[agent].id}/python-extensions" if change.mark == "+" else "/python-extensions"
    collection = "/projects" if kind == "project" else "/categories"
    return collection if change.mark == "+" else f"{collection}/id"


def _body(state: State, change: Change) -> dict[str, Any]:
    """The values as the API takes them: ids in place of names."""
    body = dict(change.values)
    if "pipeline" in body:
        body["pipelineYaml"] = body.pop("pipeline")
    for field, kind in (("category", "category"), ("agent", "agent"), ("inputDataset", "dataset")):
        if field in body:
            body[f"{field}Id"] = state.id_of(kind, body.pop(field))
    if "cloudCredentials" in body:
        body["cloudCredentialIds"] = [state.id_of("credential", name) for name in body.pop("cloudCredentials")]
    return body


def _rank(key: Key) -> int:
    return KINDS.index(key[0])


def _shown(value: Any) -> str:
    text = "nothing" if value is None else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"
