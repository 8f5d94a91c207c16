"""`spindle export`: write the records of a server as a spindle.yaml."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from cli.client import Client, ClientError, Connection, connect
from core.exchange.declarations.models import Key, format_name, get_parent

# fields of jobs that are omitted with these values
DEFAULTS = {"maxRetries": 0, "retryBackoffSeconds": 10, "timeoutSeconds": 0, "retryOn": "infrastructure"}
FIELDS = {
    "category": ("name", "description", "icon", "visibility", "enabled"),
    "agent": ("name", "description", "enabled"),
    "extension": ("name", "function"),
    "project": ("name", "description", "cronSchedule", "parameters", "enabled"),
    "job": ("name", "description", "parameters", "scheduledTime", *DEFAULTS, "enabled"),
}
# fields of a project's schedule with their defaults
SCHEDULE: Mapping[str, Any] = {
    "enabled": True,
    "timezone": "UTC",
    "parameters": {},
    "executionRequestJson": None,
    "overlap": "skip",
    "missed": "latest",
}
# collections whose records jobs name by several fields: path, fields, separator
REFERENCED = {
    "dataset": ("/datasets", ("schema", "tableName"), "."),
    "credential": ("/cloud-credentials", ("provider", "name"), "/"),
}


SECTIONS = {"category": "categories", "agent": "agents", "project": "projects"}
INNER_SECTIONS = {"extension": "extensions", "job": "jobs"}
EMPTY: tuple[Any, ...] = (None, {}, [])


@dataclass(frozen=True, slots=True)
class ServerRecord:
    """A record's id, and its fields as spindle.yaml declares them."""

    id: str
    values: Mapping[str, Any]


class ServerState:
    """The records of a server that spindle.yaml can declare, by kind and name; `ambiguous` names have several."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.records: dict[Key, ServerRecord] = {}
        self._referenced: dict[str, dict[str, str]] = {}
        self._names: dict[str, str] = {}
        found = list(self._read())
        counts = Counter(key for key, _ in found)
        self.ambiguous = frozenset(key for key, count in counts.items() if count > 1)
        self.records = {key: record for key, record in found if key not in self.ambiguous}

    def check_unique(self, keys: Iterable[Key]) -> None:
        """Raise ClientError for a name that several records have."""
        for key in keys:
            if key in self.ambiguous:
                record = f"{key[0]} '{format_name(key)}'"
                raise ClientError(f"The server has more than one {record}. Rename or delete all but one.")

    def _list_ids(self, kind: str) -> Mapping[str, str]:
        if kind not in REFERENCED:
            return {format_name(key): record.id for key, record in self.records.items() if key[0] == kind}
        if kind not in self._referenced:
            path, parts, separator = REFERENCED[kind]
            records = self._client.get(path)
            self._referenced[kind] = {separator.join(each[part] for part in parts): each["id"] for each in records}
        return self._referenced[kind]

    def _find_name(self, kind: str, record_id: str) -> str | None:
        return next((name for name, known in self._list_ids(kind).items() if known == record_id), None)

    def _read(self) -> Iterator[tuple[Key, ServerRecord]]:
        for category in self._client.get("/categories"):
            self._names[category["id"]] = category["name"]
            yield ("category", category["name"]), _create_record("category", category)
        for agent in self._client.get("/agents"):
            category = self._names.get(agent["categoryId"] or "")
            key = ("agent", category or "", agent["name"])
            self._names[agent["id"]] = format_name(key)
            yield key, _create_record("agent", agent, category=category, **_get_code(agent))
            for extension in self._client.get(f"/agents/{agent['id']}/python-extensions"):
                yield ("extension", *key[1:], extension["name"]), _create_record("extension", extension)
        for project in self._client.get("/projects"):
            jobs = self._client.get(f"/projects/id/{project['id']}/jobs")
            schedule = self._read_schedule(project, jobs) if project["cronSchedule"] else None
            yield ("project", project["name"]), _create_record("project", project, schedule=schedule)
            for job in jobs:
                yield ("job", project["name"], job["name"]), _create_record("job", job, **self._read_references(job))

    def _read_schedule(self, project: Mapping[str, Any], jobs: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
        """Return the fields of the project's schedule that differ from the defaults."""
        schedule = self._client.get(f"/projects/id/{project['id']}/schedule")
        job = next((each["name"] for each in jobs if each["id"] == schedule["jobId"]), None)
        values = {name: schedule[name] for name, default in SCHEDULE.items() if schedule[name] != default}
        return values | ({"job": job} if job else {})

    def _read_references(self, job: Mapping[str, Any]) -> dict[str, Any]:
        ids = job["cloudCredentialIds"] or [one for one in [job["cloudCredentialId"]] if one]
        credentials = [self._find_name("credential", one) for one in ids]
        return {
            "agent": self._names.get(job["agentId"] or ""),
            "inputDataset": self._find_name("dataset", job["inputDatasetId"]) if job["inputDatasetId"] else None,
            "cloudCredentials": [name for name in credentials if name is not None],
        }


def _create_record(kind: str, record: Mapping[str, Any], **fields: Any) -> ServerRecord:
    return ServerRecord(record["id"], {**{name: record[name] for name in FIELDS[kind]}, **fields})


def _get_code(agent: Mapping[str, Any]) -> dict[str, Any]:
    return {"pipeline": agent["pipelineYaml"]} if agent["pipelineYaml"] else {"code": agent["code"]}


def export(connection: Connection, output: Path | None) -> int:
    """Write the file, or print it without `output`."""
    with connect(connection) as client:
        state = ServerState(client)
    state.check_unique(state.ambiguous)
    document: dict[str, list[dict[str, Any]]] = {section: [] for section in SECTIONS.values()}
    written: dict[Key, dict[str, Any]] = {}
    for key, record in state.records.items():
        written[key] = values = _omit_defaults(record.values)
        if parent := get_parent(key):
            written[parent].setdefault(INNER_SECTIONS[key[0]], []).append(values)
        else:
            document[SECTIONS[key[0]]].append(values)
    _write(yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=10_000), output)
    return 0


def _omit_defaults(values: Mapping[str, Any]) -> dict[str, Any]:
    """Omit empty fields, `enabled: true`, the defaults of retries, and a scheduled time in the past."""
    declared = {
        name: value
        for name, value in values.items()
        if value not in EMPTY and not (name in DEFAULTS and value == DEFAULTS[name])
    }
    if "scheduledTime" in declared and datetime.fromisoformat(declared["scheduledTime"]) < datetime.now(UTC):
        del declared["scheduledTime"]  # it would be refused where it is new
    if declared.get("enabled") is True:
        del declared["enabled"]
    return declared


def _write(text: str, output: Path | None) -> None:
    if output is None:
        sys.stdout.write(text)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ClientError(f"{output} cannot be written: {error.strerror}.") from None


class _Dumper(yaml.SafeDumper):
    """A dumper that writes texts of several lines as block scalars."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _represent_text)
