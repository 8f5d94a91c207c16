"""The stage catalogue: what a client needs to offer stages and to write their arguments."""

from __future__ import annotations

from tests.support.api import Api


def test_the_stages_are_listed_with_their_arguments_and_an_example(acme: Api):
    answer = acme.get("/catalog/stages")
    assert answer.keys() == {"data"}
    stages = {stage["stage_name"]: stage for stage in answer["data"]}
    assert {"extract", "flatSelect", "wgetJoin", "visitExplore", "load_csv", "python_row_transform"} <= stages.keys()
    join = stages["wgetJoin"]
    assert list(join) == [
        "stage_name", "description", "plugin_type", "plugin_id", "aliases", "arg_schema", "usage_guide"
    ]  # fmt: skip
    assert (join["plugin_type"], join["plugin_id"], join["aliases"]) == ("core", "spindle", ["join"])
    sentiment = stages["sentiment_monthly"]
    assert (sentiment["plugin_type"], sentiment["plugin_id"]) == ("plugin", "sentiment")
    assert join["description"].startswith("Follow every link of the page: one row per link")
    assert join["arg_schema"]["positional"] == ["selector", "joinType"]
    assert join["arg_schema"]["required"] == ["selector"]
    assert join["arg_schema"]["$defs"]["JoinType"]["enum"] == ["Inner", "LeftOuter"]
    assert "- {stage: wgetJoin, args:" in join["usage_guide"]


def test_methods_and_actions_are_listed_in_the_arguments_of_their_stages(acme: Api):
    stages = {stage["stage_name"]: stage["arg_schema"]["$defs"] for stage in acme.get("/catalog/stages")["data"]
              if stage["stage_name"] in ("extract", "visit")}  # fmt: skip
    assert "price" in stages["extract"]["Extractor"]["properties"]["method"]["examples"]
    actions = [action["properties"]["action"]["enum"][0] for action in stages["visit"]["Action"]["oneOf"]]
    assert {"click", "wait_for", "scroll_to_bottom"} <= set(actions)


def test_a_stage_that_no_plugin_brings_is_a_warning_until_it_is_executed(acme: Api) -> None:
    pipeline = 'fetch: {url: "http://127.0.0.1/"}\npipeline:\n- {stage: acmeTag, args: [title]}\n'
    written = acme.post("/agents", {"name": "tagged", "pipelineYaml": pipeline})
    assert [each.partition(";")[0] for each in written["warnings"]] == ["line 3: unknown stage 'acmeTag'"]
    project = acme.project("tagged")
    job = acme.post(f"/projects/id/{project}/jobs", {"name": "tagged", "agentId": written["id"]})["id"]
    refused = acme.call("POST", f"/projects/id/{project}/jobs/{job}/execute")
    (detail,) = refused.json()["details"]
    assert (refused.status_code, detail["code"], detail["path"]) == (400, "unknown-stage", "line 3, column 11")
