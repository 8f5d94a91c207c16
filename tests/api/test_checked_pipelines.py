"""Checks of pipelines that are not stored, as editors ask for them."""

from __future__ import annotations

from tests.support.api import PIPELINE, Api, Job

CALLS = PIPELINE + '  - {stage: "python_row_transform:clean"}\n'
FUNCTION = {"name": "clean", "function": "def clean(row):\n    return row\n"}


def test_problems_have_their_lines_and_a_valid_pipeline_its_plan(acme: Api):
    agents = len(acme.get("/agents"))
    valid = acme.post("/agents/check", {"pipelineYaml": PIPELINE})
    assert (valid["problems"], "extract" in valid["plan"]) == ([], True)
    wrong = acme.post("/agents/check", {"pipelineYaml": PIPELINE + "  - {stage: extrakt}\n  - {stage: fetsch}\n"})
    assert [(each["line"], each["code"]) for each in wrong["problems"]] == [(4, "unknown-stage"), (5, "unknown-stage")]
    assert wrong["plan"] is None
    assert [each["line"] for each in acme.post("/agents/check", {"pipelineYaml": "a: [\n"})["problems"]]
    assert len(acme.get("/agents")) == agents


def test_row_transforms_are_those_of_the_agent(job: Job, rival: Api):
    job.api.post(f"/python-extensions/agents/{job.agent_id}/python-extensions", FUNCTION)
    alone = job.api.post("/agents/check", {"pipelineYaml": CALLS})
    with_agent = job.api.post("/agents/check", {"pipelineYaml": CALLS, "agentId": job.agent_id})
    assert [each["message"][:21] for each in alone["warnings"]] == ["unknown row transform"]
    assert with_agent["warnings"] == []
    answer = rival.call("POST", "/agents/check", json={"pipelineYaml": CALLS, "agentId": job.agent_id})
    assert answer.status_code == 404


def test_an_editor_asks_what_may_be_written_at_a_place(acme: Api) -> None:
    text = "pipeline:\n  - {stage: wgetj"
    found = acme.post("/agents/complete", {"pipelineYaml": text, "line": 2, "column": 18})
    assert (found["start"], [each["text"] for each in found["suggestions"]]) == (13, ["wgetJoin"])
    refused = acme.call("POST", "/agents/complete", json={"pipelineYaml": text, "line": 0, "column": 1})
    assert (refused.status_code, refused.json()["details"][0]["path"]) == (400, "line")
