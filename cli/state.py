"""What there is on a server, in the words of spindle.yaml: names in place of ids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from cli.client import Client, ClientError
from cli.declaration import Key, full_name

FIELDS = {
    "category": ("name", "description", "icon", "visibility", "enabled"),
    "agent": ("name", "description", "enabled"),
    "extension": ("name", "function"),
    "project": ("name", "description", "cronSchedule", "parameters", "enabled"),
    "job": ("name", "description", "parameters", "scheduledTime", "enabled"),
}
# where the records lie that a job refers to by names of several parts
LISTED = {
    "dataset": ("/datasets", ("schema", "tableName"), "."),
    "credential": ("/cloud-credentials", ("provider", "name"), "/"),
}


@dataclass(frozen=True, slots=True)
class Entity:
    """A record of the server: its id, and its fields as they would be declared."""

    id: str
    values: Mapping[str, Any]


class State:
    """Everything that a declaration speaks of; `repeated` are the names that do not tell records apart."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.entities: dict[Key, Entity] = {}
        self._listed: dict[str, dict[str, str]] = {}
        self._names: dict[str, str] = {}
        found = list(self._read())
        counts = Counter(key for key, _ in found)
        self.repeated = frozenset(key for key, count in counts.items() if count > 1)
        self.entities = {key: entity for key, entity in found if key not in self.repeated}

    def check_distinct(self, keys: Iterable[Key]) -> None:
        """Raises ClientError for a name that several records have."""
        for key in keys:
            if key in self.repeated:
                what = f"{key[0]} '{full_name(key)}'"
                raise ClientError(f"The server has more than one {what}. Rename or delete all but one.")

    def check_named(self, kind: str, name: str | None) -> None:
        """Raises ClientError when several records have this name."""
        self.check_distinct(key for key in self.repeated if key[0] == kind and full_name(key) == name)

    def id_of(self, kind: str, name: str) -> str:
        """The id behind a name, a category's, agent's, dataset's (`schema.table`) or credential's (`PROVIDER/name`)."""
        found = self._ids(kind).get(name)
        if found is None:
            self.check_named(kind, name)
            raise ClientError(f"There is no {kind} '{name}'.")
        return found

    def made(self, key: Key, record_id: str) -> None:
        self.entities[key] = Entity(record_id, {})

    def _ids(self, kind: str) -> Mapping[str, str]:
        if kind not in LISTED:
            return {full_name(key): entity.id for key, entity in self.entities.items() if key[0] == kind}
        if kind not in self._listed:
            path, parts, separator = LISTED[kind]
            records = self._client.get(path)
            self._listed[kind] = {separator.join(each[part] for part in parts): each["id"] for each in records}
        return self._listed[kind]

    def _name_of(self, kind: str, record_id: str) -> str | None:
        return next((name for name, known in self._ids(kind).items() if known == record_id), None)

    def _read(self) -> Iterator[tuple[Key, Entity]]:
        for category in self._client.get("/categories"):
            self._names[category["id"]] = category["name"]
            yield ("category", category["name"]), _entity("category", category)
        for agent in self._client.get("/agents"):
            category = self._names.get(agent["categoryId"] or "")
            key = ("agent", category or "", agent["name"])
            self._names[agent["id"]] = full_name(key)
            yield key, _entity("agent", agent, category=category, **_text(agent))
            for extension in self._client.get(f"/agents/{agent['id']}/python-extensions"):
                yield ("extension", *key[1:], extension["name"]), _entity("extension", extension)
        for project in self._client.get("/projects"):
            yield ("project", project["name"]), _entity("project", project)
            for job in self._client.get(f"/projects/id/{project['id']}/jobs"):
                yield ("job", project["name"], job["name"]), _entity("job", job, **self._references(job))

    def _references(self, job: Mapping[str, Any]) -> dict[str, Any]:
        ids = job["cloudCredentialIds"] or [one for one in [job["cloudCredentialId"]] if one]
        credentials = [self._name_of("credential", one) for one in ids]
        return {
            "agent": self._names.get(job["agentId"] or ""),
            "inputDataset": self._name_of("dataset", job["inputDatasetId"]) if job["inputDatasetId"] else None,
            "cloudCredentials": [name for name in credentials if name is not None],
        }


def _entity(kind: str, record: Mapping[str, Any], **more: Any) -> Entity:
    return Entity(record["id"], {**{name: record[name] for name in FIELDS[kind]}, **more})


def _text(agent: Mapping[str, Any]) -> dict[str, Any]:
    return {"pipeline": agent["pipelineYaml"]} if agent["pipelineYaml"] else {"code": agent["code"]}
