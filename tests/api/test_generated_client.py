"""A client generated from the OpenAPI file does what README shows: from a project to rows."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.api.operations import OPENAPI
from tests.support.api import PIPELINE, ROWS, Api, Job

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    folder = tmp_path_factory.mktemp("generated")
    config, file = folder / "config.json", folder / "openapi.json"
    file.write_text(json.dumps(OPENAPI))
    config.write_text(json.dumps({"package_name_override": "spindle_client", "post_hooks": []}))
    command = [str(Path(sys.executable).parent / "openapi-python-client"), "generate", "--path", str(file)]
    made = subprocess.run(
        [*command, "--config", str(config), "--output-path", str(folder / "client"), "--fail-on-warning"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stdout + made.stderr
    sys.path.insert(0, str(folder / "client"))
    yield importlib.import_module("spindle_client")
    sys.path.remove(str(folder / "client"))


def test_the_scenario_of_the_readme(generated: ModuleType, acme: Api) -> None:
    url = str(acme.client.base_url)
    with generated.AuthenticatedClient(url, acme.key, prefix="", auth_header_name="X-API-Key") as client:
        go_through(client, acme)


def go_through(client: Any, acme: Api) -> None:
    def call(module: str, *ids: str, body: tuple[str, dict[str, Any]] | None = None) -> Any:
        operation = importlib.import_module(f"spindle_client.api.{module}")
        arguments: dict[str, Any] = {"client": client}
        if body:
            model = getattr(importlib.import_module("spindle_client.models"), body[0])
            arguments["body"] = model.from_dict(body[1])
        answer = operation.sync_detailed(*ids, **arguments)
        assert answer.status_code == 200, answer.content
        return answer.parsed

    project = call("projects.create_project", body=("ProjectCreate", {"name": "generated"}))
    agent = call("agents.create_agent", body=("AgentCreate", {"name": "generated", "pipelineYaml": PIPELINE}))
    job = call("jobs.create_job", project.id, body=("JobCreate", {"name": "generated", "agentId": agent.id}))
    execution = call("executions.execute_job", project.id, job.id, body=("ExecuteRequest", {"parameters": {}}))
    Job(acme, project.id, job.id, agent.id).complete(execution.execution_id, ROWS)
    status = call("executions.read_execution_status", project.id, job.id, execution.execution_id)
    assert status.status == "COMPLETED"
    rows = call("datasets.query_datasets", body=("DatasetQuery", {"sql": "SELECT title FROM generated.generated"}))
    assert sorted(row["title"] for row in rows.results) == ["kettle", "mug"]
