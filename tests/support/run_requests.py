"""Requests for a run, as drivers get them."""

from __future__ import annotations

from typing import Any

from pipelines.contract.request import RunRequest


def make_request(execution: str = "execution", **fields: Any) -> RunRequest:
    """Return the request for the first attempt of an execution; its pipeline has no stage unless `fields` have one."""
    given: dict[str, Any] = {
        "execution_id": execution,
        "job_id": "job",
        "project_id": "project",
        "organization_id": "organization",
        "job_name": "job",
        "attempt": 1,
        "pipeline_yaml": "pipeline: []",
        "output": {"path": "s3://bucket/output"},
    }
    return RunRequest.model_validate(given | fields)
