"""Runs that people launch in the Dagster UI: each asset of one is an execution with the rules of REST."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from core.infra.pidfile import list_alive
from tests.support.service import PATIENCE_SECONDS, POLL_SECONDS, Job, Json, Service, wait_until
from tests.support.site import GatedSite, serve_gated_site

ROWS = """\
fetch: {{url: "{url}"}}
pipeline:
  - {{stage: extract, args: [{{selector: h1, method: text, as: title}}]}}
checks: [{{check: row_count, min: '${{LEAST}}'}}]
"""
FIRST = """\
pipeline:
  - {{stage: load_parquet, args: ['spindle://{project}/rows']}}
  - {{stage: limit, args: [1]}}
"""
SELECTOR = {"repositoryLocationName": "spindle", "repositoryName": "__repository__"}
LAUNCH = """mutation ($params: ExecutionParams!) { launchRun(executionParams: $params) {
  __typename ... on LaunchRunSuccess { run { runId } } } }"""
REPEAT = """mutation ($params: ReexecutionParams!) { launchRunReexecution(reexecutionParams: $params) {
  __typename ... on LaunchRunSuccess { run { runId } } } }"""
TERMINATE = "mutation ($run: String!) { terminateRun(runId: $run) { __typename } }"
LOG = """query ($run: ID!) { logsForRun(runId: $run) { ... on EventConnection {
  events { ... on MessageEvent { message } } } } }"""
RUN = """query ($run: ID!) { runOrError(runId: $run) { ... on Run { status jobName assetSelection { path }
  tags { key value } stepStats { stepKey status } } } }"""
NODE = """query ($key: [String!]!) { assetNodeOrError(assetKey: {path: $key}) {
  ... on AssetNode { isMaterializable assetMaterializations(limit: 1) { metadataEntries { label
    ... on IntMetadataEntry { intValue } ... on FloatMetadataEntry { floatValue } ... on UrlMetadataEntry { url } } }
  assetChecksOrError { ... on AssetChecks { checks { name executionForLatestMaterialization { status }
    } } } } } }"""
CHECKS = """query ($key: AssetKeyInput!) { assetCheckExecutions(assetKey: $key, checkName: "row_count", limit: 5) {
  status evaluation { success description metadataEntries { label ... on IntMetadataEntry { intValue } } } } }"""


class Shop:
    """A project with two jobs, of which the second reads the output of the first, and their assets in the UI."""

    def __init__(self, service: Service, url: str) -> None:
        self.service = service
        self.rows = service.make_job(ROWS.format(url=url))
        self.project = service.get(f"/projects/id/{self.rows.project_id}")["name"].replace(" ", "_")
        agent = service.post(
            "/agents", {"name": f"of {self.project}", "pipelineYaml": FIRST.format(project=self.project)}
        )
        job = service.post(f"/projects/id/{self.rows.project_id}/jobs", {"name": "first", "agentId": agent["id"]})
        self.first = Job(self.rows.project_id, job["id"])
        wait_until(lambda: self.node("first").get("isMaterializable"), PATIENCE_SECONDS, every=POLL_SECONDS)

    def node(self, job: str) -> Json:
        return self.service.graphql(NODE, key=[self.project, job])["assetNodeOrError"]

    def launch(self, jobs: tuple[str, ...], least: int | None = None, **values: Any) -> str:
        """Launch a run of these jobs, or of all of the Dagster job `job`."""
        config: Json = values.get("config", {})
        if least is not None:
            config = {f"{self.project}__rows": {"config": {"parameters": {"LEAST": least}}}}
        params = {
            "selector": {
                **SELECTOR,
                "jobName": values.get("job", "__ASSET_JOB"),
                "assetSelection": [{"path": [self.project, name]} for name in jobs] or None,
            },
            "runConfigData": {"ops": config},
        }
        return self.service.graphql(LAUNCH, params=params)["launchRun"]["run"]["runId"]

    def repeat(self, run: str, strategy: str) -> str:
        params = {"parentRunId": run, "strategy": strategy, "useParentRunTags": True}
        return self.service.graphql(REPEAT, params=params)["launchRunReexecution"]["run"]["runId"]

    def wait(self, run: str) -> Json:
        ended = ("SUCCESS", "FAILURE", "CANCELED")
        wait_until(lambda: self.load(run)["status"] in ended, 200, every=POLL_SECONDS)
        return self.load(run)

    def load(self, run: str) -> Json:
        return self.service.graphql(RUN, run=run)["runOrError"]

    def list_messages(self, run: str) -> list[str]:
        answer = self.service.graphql(LOG, run=run)["logsForRun"]
        return [event["message"] for event in answer["events"] if "message" in event]

    def list_executions(self, job: Job) -> list[Json]:
        return self.service.get(f"{job.path}/executions")


@pytest.fixture(scope="module")
def open_site() -> Iterator[GatedSite]:
    with serve_gated_site() as site:
        site.open()
        yield site


@pytest.fixture(scope="module")
def shop(service: Service, open_site: GatedSite) -> Shop:
    return Shop(service, open_site.url)


def list_steps(run: Json, status: str = "SUCCESS") -> list[str]:
    return [each["stepKey"].partition("__")[2] for each in run["stepStats"] if each["status"] == status]


def get_tags(run: Json) -> dict[str, str]:
    return {tag["key"]: tag["value"] for tag in run["tags"]}


@pytest.mark.long
def test_a_selection_is_executed_upstream_first_with_parameters_of_the_launchpad(shop: Shop) -> None:
    run_id = shop.launch(("first", "rows"), least=1)
    run = shop.wait(run_id)
    assert run["status"] == "SUCCESS"
    rows = [f"rows.{name}" for name in ("start", "fetch", "extract", "write_output", "publish")]
    first = [f"first.{name}" for name in ("start", "load_parquet", "limit", "write_output", "publish")]
    assert list_steps(run) == [*rows, *first]
    executions = [shop.list_executions(job)[0] for job in (shop.rows, shop.first)]
    assert [(each["status"], each["trigger"]) for each in executions] == [("COMPLETED", "dagster")] * 2
    assert {each["dagsterRunId"] for each in executions} == {run_id}
    assert executions[0]["dagsterRunUrl"] == f"{shop.service.ui_url}/runs/{run_id}"
    assert [name for name in get_tags(run) if not name.startswith("dagster/")] == ["spindle/project"]
    (materialized,) = shop.node("rows")["assetMaterializations"]
    shown = {entry["label"]: entry for entry in materialized["metadataEntries"]}
    assert [shown[name]["intValue"] for name in ("rows", "pages", "errors")] == [1, 1, 0]
    assert shown["cost (USD)"]["floatValue"] == 0
    assert shown["REST"]["url"].endswith(f"/executions/{executions[0]['executionId']}")
    assert shown["console"]["url"].endswith(f"/executions/{executions[0]['executionId']}")


@pytest.mark.long
def test_independent_assets_are_executed_side_by_side_each_with_a_run_of_its_job(
    service: Service, site: GatedSite
) -> None:
    shop = Shop(service, site.url)
    agent = service.get(shop.rows.path)["agentId"]
    made = service.post(f"/projects/id/{shop.rows.project_id}/jobs", {"name": "other", "agentId": agent})
    other = Job(shop.rows.project_id, made["id"])
    wait_until(lambda: shop.node("other").get("isMaterializable"), PATIENCE_SECONDS, every=POLL_SECONDS)
    config = {f"{shop.project}__{name}": {"config": {"parameters": {"LEAST": 1}}} for name in ("other", "rows")}
    shop.launch((), config=config, job=shop.project)
    for job in (shop.rows, other):  # no page is answered before both run
        wait_until(
            lambda job=job: [each["status"] for each in shop.list_executions(job)] == ["RUNNING"],
            200,
            every=POLL_SECONDS,
        )
    site.open()
    runs = {job: shop.list_executions(job)[0]["dagsterRunId"] for job in (shop.rows, other)}
    assert {shop.wait(run)["status"] for run in runs.values()} == {"SUCCESS"}
    assert shop.list_executions(shop.first)[0]["dagsterRunId"] == runs[shop.rows]
    assert shop.load(runs[other])["jobName"] == shop.project
    tags = get_tags(shop.load(runs[other]))
    assert (tags["spindle/project"], tags["spindle/job"]) == (shop.project, "other")


@pytest.mark.long
def test_a_run_without_a_needed_parameter_fails_in_its_first_step(shop: Shop) -> None:
    before = len(shop.list_executions(shop.rows))
    run = shop.wait(shop.launch(("rows",)))
    assert (run["status"], list_steps(run), list_steps(run, "FAILURE")) == ("FAILURE", [], ["rows.start"])
    assert len(shop.list_executions(shop.rows)) == before


@pytest.mark.long
def test_a_failed_check_keeps_the_version_and_a_rerun_from_failure_is_its_next_attempt(shop: Shop) -> None:
    failed_id = shop.launch(("rows",), least=2)
    failed = shop.wait(failed_id)
    assert (failed["status"], list_steps(failed, "FAILURE")) == ("FAILURE", ["rows.publish"])
    execution = get_tags(failed)["spindle/execution"]
    key = {"path": [shop.project, "rows"]}
    check = shop.service.graphql(CHECKS, key=key)["assetCheckExecutions"][0]
    assert (check["status"], check["evaluation"]["success"]) == ("FAILED", False)
    assert "has 1 row" in check["evaluation"]["description"]
    assert {"label": "rows", "intValue": 1} in check["evaluation"]["metadataEntries"]

    again = shop.wait(shop.repeat(failed_id, "FROM_FAILURE"))
    assert (again["status"], get_tags(again)["spindle/execution"]) == ("FAILURE", execution)
    newest = shop.list_executions(shop.rows)[0]
    assert (newest["executionId"], newest["attempt"], newest["status"]) == (execution, 2, "FAILED")


@pytest.mark.long
def test_a_run_that_continues_names_both_revisions_after_a_change_of_the_agent(
    service: Service, open_site: GatedSite
) -> None:
    shop = Shop(service, open_site.url)
    failed_id = shop.launch(("rows",), least=2)
    assert shop.wait(failed_id)["status"] == "FAILURE"
    agent = f"/agents/none/{service.get(shop.rows.path)['agentId']}"

    def change(pipeline: str) -> None:
        with service.client() as client:
            client.put(agent, json={"pipelineYaml": pipeline.format(url=open_site.url)}).raise_for_status()

    change(ROWS.replace("h1", "title"))
    again_id = shop.repeat(failed_id, "FROM_FAILURE")
    assert shop.wait(again_id)["status"] == "FAILURE"
    assert shop.list_executions(shop.rows)[0]["attempt"] == 2
    sentence = "keeps revision 1 of its agent. The job's agent is now at revision 2, which 'Re-execute all' takes"
    assert any(sentence in message for message in shop.list_messages(again_id))
    change(ROWS.replace("checks:", "  - {{stage: limit, args: [1]}}\nchecks:"))
    refused_id = shop.repeat(again_id, "FROM_FAILURE")
    assert shop.wait(refused_id)["status"] == "FAILURE"
    assert any("now at revision 3" in message for message in shop.list_messages(refused_id))
    assert shop.list_executions(shop.rows)[0]["attempt"] == 2


@pytest.mark.long
def test_a_run_of_rest_is_repeated_with_its_parameters_as_a_new_execution(
    service: Service, open_site: GatedSite
) -> None:
    """The launchpad takes whole numbers alone for a parameter that is one in the job; REST takes texts too."""
    shop = Shop(service, open_site.url)
    with service.client() as client:
        assert client.put(shop.rows.path, json={"parameters": {"LEAST": 7}}).is_success
    execution = shop.service.execute(shop.rows, {"parameters": {"LEAST": "1"}})
    assert shop.service.wait(shop.rows, execution, seconds=200)["status"] == "COMPLETED"
    (run,) = shop.service.runs(execution)
    loaded = shop.wait(run["runId"])
    assert loaded["assetSelection"] == [{"path": [shop.project, "rows"]}]
    repeated = shop.wait(shop.repeat(run["runId"], "ALL_STEPS"))
    newest = shop.list_executions(shop.rows)[0]
    assert (repeated["status"], newest["status"]) == ("SUCCESS", "COMPLETED")
    assert get_tags(repeated)["spindle/execution"] == newest["executionId"] != execution


@pytest.mark.long
def test_a_default_of_the_pipeline_in_the_launchpad_leaves_the_value_to_a_credential(
    service: Service, open_site: GatedSite
) -> None:
    """The launchpad begins with all defaults, so that nobody need have chosen this one."""
    shop, nowhere = Shop(service, open_site.url), "http://127.0.0.1:1/"
    agent = service.get(shop.rows.path)["agentId"]
    pipeline = ROWS.format(url=f"${{SEARXNG_BASE_URL:-{nowhere}}}").replace("${LEAST}", "1")
    secret = {"name": "address", "provider": "SEARXNG", "endpoint": open_site.url}
    credential = service.post("/cloud-credentials", secret)["id"]
    with service.client() as client:
        client.put(f"/agents/none/{agent}", json={"pipelineYaml": pipeline}).raise_for_status()
        client.put(shop.rows.path, json={"cloudCredentialIds": [credential]}).raise_for_status()
        config = {f"{shop.project}__rows": {"config": {"parameters": {"SEARXNG_BASE_URL": nowhere}}}}
        assert shop.wait(shop.launch(("rows",), config=config))["status"] == "SUCCESS"
        client.delete(f"/cloud-credentials/id/{credential}").raise_for_status()


@pytest.mark.long
def test_a_terminated_run_cancels_its_execution_and_leaves_no_step_running(service: Service, site: GatedSite) -> None:
    shop = Shop(service, site.url)
    run_id = shop.launch(("rows", "first"), least=1)
    site.wait_for_visitor()
    assert service.graphql(TERMINATE, run=run_id)["terminateRun"]["__typename"] == "TerminateRunSuccess"
    run = shop.wait(run_id)
    assert run["status"] == "CANCELED"
    assert not {each["status"] for each in run["stepStats"]} & {"STARTED", "IN_PROGRESS"}
    newest = shop.list_executions(shop.rows)[0]
    assert newest["errorMessage"].startswith("The run was terminated in Dagster.")
    assert shop.list_executions(shop.first) == []
    wait_until(lambda: not list_alive(service.data / "drivers"), PATIENCE_SECONDS)


OBSERVED = """query ($key: [String!]!) { assetOrError(assetKey: {path: $key}) { ... on Asset {
  assetMaterializations { runId } assetObservations { runId metadataEntries { label ... on IntMetadataEntry { intValue }
  ... on MarkdownMetadataEntry { mdStr } } } } } }"""


@pytest.mark.long
def test_a_limit_in_the_launchpad_publishes_nothing_and_runs_nothing_downstream(
    service: Service, open_site: GatedSite
) -> None:
    shop = Shop(service, open_site.url)
    config = {f"{shop.project}__rows": {"config": {"parameters": {"LEAST": 1}, "limit": 1}}}
    run_id = shop.launch(("first", "rows"), config=config)
    run = shop.wait(run_id)
    assert run["status"] == "SUCCESS"
    assert list_steps(run)[-1] == "rows.publish"
    (execution,) = shop.list_executions(shop.rows)
    assert (execution["status"], execution["publishes"]) == ("COMPLETED", False)
    assert shop.list_executions(shop.first) == []
    asset = service.graphql(OBSERVED, key=[shop.project, "rows"])["assetOrError"]
    assert asset["assetMaterializations"] == []
    (observed,) = asset["assetObservations"]
    shown = {entry["label"]: entry for entry in observed["metadataEntries"]}
    assert (observed["runId"], shown["rows"]["intValue"]) == (run_id, 1)
    assert f"@{execution['executionId']}" in shown["SQL"]["mdStr"]
    chosen = {**config[f"{shop.project}__rows"]["config"], "publish": True}
    assert (
        shop.wait(shop.launch(("rows",), config={f"{shop.project}__rows": {"config": chosen}}))["status"] == "SUCCESS"
    )
    assert shop.list_executions(shop.rows)[0]["publishes"]
