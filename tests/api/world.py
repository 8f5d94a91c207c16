"""A record of every noun, made through the API. A new noun adds its own here, and is tested with all others."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from unittest.mock import patch
from uuid import uuid4

from core.infra.storage import load_storage_secrets, open_storage
from core.infra.storage.protocol import selectors_key
from core.tables import Person, PluginBuild, PluginInstallation
from pipelines.inference.records import Candidate, ProvenField, ProvenSelectors, Reading, RecordedStep
from pipelines.inference.store import SelectorStore
from tests.support.api import ROWS, Api, open_session

UNKNOWN_ID = "01990000-0000-7000-8000-000000000000"
UNKNOWN_NUMBER = "999999999"  # of what counts in integers
UNKNOWN_NAME = "no-such-name"

FUNCTION = {"name": "clean", "function": "def clean(row):\n    return row\n"}

World = dict[str, str]


def store_record(api: Api, host: str) -> str:
    """Store proven selectors of a host as a run does; return their id."""
    candidate = Candidate(reading=Reading(selector="#price"), stability=100)
    field = ProvenField(name="price", candidates=(candidate,), known={"http://shop.test/1": "£12"})
    record = ProvenSelectors(
        host=host,
        template="t1",
        prompt="Extract: price",
        prompt_key="p1",
        fields=(field,),
        steps=(RecordedStep(action="click", params={"selector": "button.more", "timeout": 5}),),
        proven_at=datetime(2026, 11, 25, tzinfo=UTC),
    )
    folder = open_storage(api.settings.storage).url_for(selectors_key(api.organization_id), "spark")
    with patch.dict(os.environ, load_storage_secrets(api.settings.storage)):
        SelectorStore(folder).put(record)
    return record.key


def store_plugin(api: Api, plugin_id: str, build_type: str, build_number: int) -> str:
    """Store an uploaded plugin of the organization, as if its file had been read; return the installation's id."""
    with open_session(api.settings) as session:
        build, other = (
            PluginBuild(
                organization_id=api.organization_id,
                plugin_id=plugin_id,
                build_type=type,
                build_number=number,
                version="1.0",
                digest="0" * 64,
                file_name="weather-1.0-py3-none-any.whl",
                main_class="weather:plugin",
                manifest={},
            )
            for type, number in (("release", 1), (build_type, build_number))
        )
        session.add_all((build, other))
        session.flush()
        owner = api.organization_id
        installation = PluginInstallation(
            organization_id=owner, build_id=build.id, organization_ids=[owner], installed_by=owner
        )
        session.add(installation)
        session.flush()
        made = installation.id
    return str(made)


def store_person(api: Api, subject: str) -> str:
    """Store a person of the organization, as if they had signed in; return their id."""
    with open_session(api.settings) as session:
        person = Person(organization_id=api.organization_id, issuer="https://id.test", subject=subject, name=subject)
        person.role, person.role_from_provider = "viewer", False
        session.add(person)
        session.flush()
        made = person.id
    return made


def make_backfill(api: Api, path: str) -> str:
    """Store a backfill of a job, which has partitions no longer than for that; return its id."""
    api.put(path, {"partitions": {"by": "day", "start": "2026-01-01", "parameter": "DAY"}})
    backfill = api.post(f"{path}/backfills", {"to": "2026-01-02"})["id"]
    api.put(path, {"partitions": []})
    return backfill


def make_world(api: Api, name: str) -> World:
    """Ids and names of the caller's new records, under the names that paths, queries and bodies use."""
    category = api.post("/categories", {"name": name})["id"]
    job = api.job(name)
    api.put(f"/agents/none/{job.agent_id}", {"categoryId": category})
    finished, execution = job.execute(), job.execute()
    dataset = job.complete(finished, ROWS)
    table = name.replace(" ", "-")
    plugin, number = f"plugin-{uuid4().hex}", uuid4().int % 2**30
    target = api.post("/cloud-credentials", {"provider": "NTFY", "endpoint": "https://ntfy.example.com/topic"})["id"]
    return {
        "orgId": api.organization_id,
        "projectId": job.project_id,
        "jobId": job.id,
        "agentId": job.agent_id,
        "categoryId": category,
        "executionId": execution,
        "datasetId": dataset,
        "taskId": api.get(job.path)["taskIds"][0],
        "credentialId": api.post("/cloud-credentials", {"provider": "OPENAI", "apiKey": "theirs"})["id"],
        "selectorsId": store_record(api, f"{name}.test"),
        "extensionId": api.post(f"/agents/{job.agent_id}/python-extensions", FUNCTION)["id"],
        "scheduleName": api.post(
            f"/projects/id/{job.project_id}/schedules", {"name": name.replace(" ", "_"), "cronSchedule": "@daily"}
        )["name"],
        "webhookId": api.post(f"/projects/id/{job.project_id}/webhooks", {"url": "https://example.com/hook"})["id"],
        "cloudCredentialId": target,
        "ruleName": api.post(
            f"/projects/id/{job.project_id}/notifications",
            {"name": name.replace(" ", "_"), "cloudCredentialId": target, "events": ["failed"]},
        )["name"],
        "keyId": api.post("/auth/api-keys", {"name": name})["id"],
        "personId": store_person(api, f"{api.organization_id} {name}"),
        "recordId": api.post(f"/api/api/cms-tables/{table}", {"title": name})["id"],
        "exportId": api.get("/package/export/all")["exportId"],
        "uploadId": api.get("/package/upload")["uploadId"],
        "queryId": api.call("POST", "/datasets/query?async=true", json={"sql": "SELECT 1 AS one"}).json()["queryId"],
        "localPath": api.get(f"/datasets/{dataset}")["storagePath"],
        "pluginId": plugin,
        "uploadedType": table,
        "uploadedNumber": str(number),
        "installationId": store_plugin(api, plugin, table, number),
        "backfillId": make_backfill(api, job.path),
        "table": table,
        "projectName": name,
        "categoryName": name,
        "poolName": api.post("/pools", {"name": table, "limit": 3})["name"],
        "agentName": name,
    }


def unknown(name: str) -> str:
    """A value of that parameter that nobody has."""
    if name in ("taskId", "installationId", "uploadedNumber"):
        return UNKNOWN_NUMBER
    return UNKNOWN_ID if name.endswith("Id") else UNKNOWN_NAME
