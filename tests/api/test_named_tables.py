"""Datasets that pipelines name in SQL, over REST: versions of an execution, retries and cycles."""

from __future__ import annotations

from tests.support.api import ROWS, Api, Job

QUERY = "pipeline: [{{stage: sql_query, args: [SELECT * FROM t, {{tables: {{t: '{}'}}}}]}}]"


def publish(api: Api, name: str, times: int = 1) -> Job:
    job = api.job(name)
    for _ in range(times):
        job.complete(job.execute(), ROWS)
    return job


def test_the_record_has_the_versions_that_are_read(acme: Api) -> None:
    source = publish(acme, "named source", times=2)
    dataset = acme.get(source.path)["outputDatasetId"]
    reader = acme.job("named reader", pipeline=QUERY.format("named_source.named_source@1"))
    execution = reader.execute()
    record = acme.get(f"{reader.path}/executions/{execution}")
    assert record["inputVersions"] == [{"name": "named_source.named_source@1", "datasetId": dataset, "version": 1}]
    assert acme.get(f"{source.path}/executions")[0]["inputVersions"] == []
    (link,) = acme.get(f"/datasets/{dataset}/lineage")["readBy"]
    assert (link["executionId"], link["version"]) == (execution, 1)


def test_a_cycle_of_jobs_is_a_warning_when_it_is_written(acme: Api) -> None:
    first = acme.job("cycle first", pipeline=QUERY.format("cycle_second.cycle_second"))
    made = acme.post(f"/projects/id/{acme.project('cycle second')}/jobs", {"name": "cycle second"})
    assert "warnings" not in made
    agent = acme.post("/agents", {"name": "cycle second", "pipelineYaml": QUERY.format("cycle_first.cycle_first")})
    path = f"/projects/id/{made['projectId']}/jobs/{made['id']}"
    for warned in (
        acme.put(path, {"agentId": agent["id"]}),
        acme.put(f"/agents/none/{agent['id']}", {"description": "Closes the cycle."}),
        acme.post(f"/projects/id/{first.project_id}/jobs", {"name": "other", "agentId": first.agent_id}),
    ):
        assert [("'cycle second'" in each) for each in warned.get("warnings", ())] == [True] * (
            warned["name"] != "other"
        )
