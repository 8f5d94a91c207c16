from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import update

from core.definitions.identity.organizations import create_organization, get_organization
from core.definitions.projects.models import ProjectUpdate
from core.definitions.projects.repository import ProjectRepository
from core.infra.settings import Settings
from core.infra.storage.protocol import (
    checkpoints_key,
    failures_key,
    files_key,
    kept_files_key,
    known_pages_key,
    output_key,
    pages_key,
    saves_key,
    selectors_key,
    used_pages_key,
)
from core.lifecycle.executions.spec import (
    LaunchContext,
    build_spec,
    find_allowance,
    find_model,
    list_local_folders,
    load_driver_secrets,
)
from core.tables import Execution, now
from pipelines.contract.request import VERSION
from pipelines.models.budget import Allowance
from pipelines.models.options import ModelOptions
from tests.support.shop import Shop


@pytest.mark.folder
def test_the_spec_has_everything_for_the_driver_but_secrets(shop: Shop) -> None:
    first = shop.submit()
    shop.complete(first)
    shop.write_pipeline("pipeline:\n  - {stage: load_csv, args: [{path: 'spindle://shop/books'}]}\n")
    execution = shop.submit(parameters={"limit": 5}, arguments=["--fast"])
    settings = Settings(
        data=shop.settings.data,
        port=9000,
        root_path="/etl",
        service_segment="jobs",
        fetch_allow_networks=("127.0.0.1/32",),
        fetch_contact="ops@example.com",
        spark_master="local[2]",
    )
    text = build_spec(settings, shop.storage, execution, LaunchContext(local_folders=("/srv/files",))).to_json()
    completion = f"projects/id/{shop.project_id}/jobs/{shop.job_id}/completion"
    assert json.loads(text) == {
        "version": VERSION,
        "executionId": execution.id,
        "jobId": shop.job_id,
        "projectId": shop.project_id,
        "organizationId": shop.organization_id,
        "jobName": "Books",
        "attempt": 1,
        "pipelineYaml": execution.pipeline_yaml,
        "parameters": {},
        "steps": [
            {
                "key": each.key,
                "title": each.title,
                "passNumber": each.pass_number,
                "line": each.line,
                "runsScript": False,
            }
            for each in execution.steps
        ],
        "arguments": ["--fast"],
        "rowTransforms": {},
        "isolateTransforms": True,
        "packages": None,
        "plugins": [],
        "engineFolders": [],
        "credentials": {},
        "publicVariables": [],
        "limit": 5,
        "publishes": True,
        "partition": {},
        "past": [],
        "acceptedAt": execution.created_at.isoformat().replace("+00:00", "Z"),
        **describe_places(shop, first, execution),
        "targets": {},
        "localFolders": ["/srv/files"],
        "webhook": {"url": f"http://127.0.0.1:9000/etl/jobs/api/{completion}"},
        "heartbeatSeconds": 10.0,
        "fetch": {
            "allowNetworks": ["127.0.0.1/32"],
            "ownEndpoints": [["127.0.0.1", 9000], ["127.0.0.1", 3000]],
            "contact": "ops@example.com",
        },
        "model": None,
        "allowance": None,
        "engine": "auto",
        "beginsWithSpark": False,
        "memoryBytes": None,
        "reusesDriver": True,
        "growth": {"pages": 50_000, "slowPages": 1_000, "rows": 1_000_000, "bytes": 512 * 1024 * 1024},
        "spark": {"master": "local[2]", "conf": {"spark.driver.memory": "2g"}, "libraries": []},
        "pods": {
            "kubernetesDriverCpu": None,
            "kubernetesDriverMemory": None,
            "kubernetesExecutors": None,
            "kubernetesExecutorCpu": None,
            "kubernetesDynamicAllocation": None,
            "kubernetesNodeSelector": None,
            "sparkDriverMemory": None,
            "sparkExecutorMemory": None,
        },
        "previewRows": 20,
        "scratch": None,
        "eventLog": None,
    }
    token = load_driver_secrets(settings, execution)["SPINDLE_EXECUTION_TOKEN"]
    assert token.startswith("whsec_")
    assert token not in text


def describe_places(shop: Shop, first: Execution, execution: Execution) -> dict[str, Any]:
    """The parts of an execution's spec that name places in the storage; it reads the output of the first one."""

    def url(key: str) -> str:
        return shop.storage.url_for(key, "spark")

    place = (shop.organization_id, execution.id, 1)
    return {
        "output": {
            "path": url(output_key(*place)),
            "saves": url(saves_key(*place)),
            "files": url(files_key(*place[:2])),
            "kept": url(kept_files_key(place[0])),
            "keptBytes": 100_000_000_000,
            "failures": url(failures_key(*place)),
            "knownPages": url(known_pages_key(shop.organization_id, shop.job_id, *place[1:])),
        },
        "checkpoints": {"folder": url(checkpoints_key(*place)), "digest": "", "earlier": []},
        "inputs": {
            "spindle://shop/books": {
                "paths": [url(output_key(shop.organization_id, first.id, 1))],
                "format": "parquet",
                "version": 1,
                "snapshot": None,
                "columns": [],
                "partitionBy": [],
                "partition": [],
            }
        },
        "selectors": url(selectors_key(shop.organization_id)),
        "pages": {
            "folder": url(pages_key(shop.organization_id)),
            "trustedSince": execution.created_at.isoformat().replace("+00:00", "Z"),
            "keepSeconds": 30 * 86400.0,
            "maxBytes": 10_000_000_000,
            "used": url(used_pages_key(shop.organization_id, execution.id, 1)),
            "replay": None,
        },
    }


def test_the_model_is_the_projects_own_or_that_of_the_settings(shop: Shop) -> None:
    settings = Settings(data=shop.settings.data, model_name="small", model_max_calls=7)
    with shop.database.write() as session:
        assert find_model(session, settings.model, shop.project_id) == ModelOptions(name="small", max_calls=7)
        changes = ProjectUpdate(parameters={"model": {"provider": "openai", "maxCost": 0.5}})
        ProjectRepository(session, shop.organization_id).update(shop.project_id, changes)
        own = find_model(session, settings.model, shop.project_id)
    assert (own.provider, own.name, own.max_cost, own.max_calls) == ("OPENAI", None, 0.5, None)


def test_the_allowance_is_what_the_executions_of_the_day_have_left(shop: Shop) -> None:
    settings = Settings(data=shop.settings.data, model_daily_calls=10, model_daily_cost=0.5)
    noon = now().replace(hour=12)
    made = [shop.submit().id for _ in range(4)]
    spent = {"calls": 3, "tokensIn": 5, "tokensOut": 1, "cost": 0.1}
    with shop.database.write() as session:
        for id_, created in zip(made[:3], (noon, noon, noon - timedelta(days=1)), strict=True):
            values = {"created_at": created, "progress": {"model": spent}}
            session.execute(update(Execution).where(Execution.id == id_).values(values))
        assert find_allowance(session, Settings(data=shop.settings.data).model, shop.organization_id) is None
        left = find_allowance(session, settings.model, shop.organization_id, noon)
        assert (left.calls, left.tokens, left.cost) == (4, None, pytest.approx(0.3))
        assert find_allowance(session, settings.model, "another", noon) == Allowance(calls=10, cost=0.5)
        spent_all = Settings(data=shop.settings.data, model_daily_calls=5)
        assert find_allowance(session, spent_all.model, shop.organization_id, noon) == Allowance(calls=0)


def test_each_of_several_organizations_has_local_folders_of_its_own(shop: Shop) -> None:
    settings = Settings(data=shop.settings.data, local_folders=("/srv/files", "/mnt/in/"))
    with shop.database.read() as session:
        alone = list_local_folders(session, settings.files, shop.organization_id)
    with shop.database.write() as session:
        create_organization(session, "Another One")
        slug = get_organization(session, shop.organization_id).slug
        shared = list_local_folders(session, settings.files, shop.organization_id)
    assert alone == ["/srv/files", "/mnt/in/"]
    assert shared == [f"/srv/files/{slug}", f"/mnt/in/{slug}"]
