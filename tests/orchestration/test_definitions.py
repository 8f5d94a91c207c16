"""Definitions: what Dagster shows of jobs, what is built anew after a change, and how soon a change is visible."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import yaml
from dagster import (
    AssetKey,
    AssetMaterialization,
    AssetsDefinition,
    AssetSpec,
    AutomationCondition,
    DagsterInstance,
    Definitions,
    FreshnessPolicy,
    GraphDefinition,
    TableColumnDep,
    evaluate_automation_conditions,
)
from dagster._core.errors import DagsterUserCodeUnreachableError
from dagster._grpc.client import DagsterGrpcClient

from core.definitions.agents.plan_outline import outline_pipeline
from core.definitions.jobs.partitions import Partitions, read_partitions
from core.definitions.schedules.outlines import ScheduleOutline
from core.lifecycle.outlines.outlines import JobOutline
from core.lifecycle.outlines.parameters import ParameterOutline
from core.lifecycle.outlines.sources import ColumnOutline, SourceOutline
from orchestration.asset_specs import build_attributes
from orchestration.client import REPOSITORY
from orchestration.definitions_builder import DefinitionsBuilder, Outlines
from orchestration.markdown import escape_markdown, format_code
from tests.support.cases import each_case
from tests.support.service import PATIENCE_SECONDS, POLL_SECONDS, Json, Service, wait_until

PIPELINE = """\
fetch: {url: "http://shop/"}
pipeline:
  - {stage: extract, args: [{selector: h1, method: text, as: title}]}
  - {stage: extract, args: [{selector: .price, method: price, as: price}]}
checks: [{check: not_null, columns: [title]}]
"""
ASSETS = """{ assetNodes { assetKey { path } description isMaterializable hasMaterializePermission opNames jobNames
  targetingInstigators { ... on Schedule { name } }
  dependencyKeys { path } } }"""
LAUNCHPAD = """query ($selector: PipelineSelector!, $config: RunConfigData) {
  runConfigSchemaOrError(selector: $selector) { ... on RunConfigSchema { rootDefaultYaml
    isRunConfigValid(runConfigData: $config) { __typename
      ... on RunConfigValidationInvalid { errors { message reason } } } } } }"""


def make_outline(slug: str = "books", **values: Any) -> JobOutline:
    plan = outline_pipeline(PIPELINE)
    outline = JobOutline(
        "1", "acme", "2", "shop", "Shop", slug, slug, slug.title(), None, ("shop", slug),
        steps=plan.steps, checks=plan.checks, columns=plan.columns, kinds=plan.kinds,
        agent_id="3", agent_name="Crawler", agent_revision=1, pipeline_yaml=PIPELINE,
    )  # fmt: skip
    return replace(outline, **values)


def test_an_asset_has_the_tags_of_its_job() -> None:
    definitions = DefinitionsBuilder().build(Outlines([make_outline(tags=(("team", "prices"), ("tier", "")))]))
    tags = definitions.resolve_asset_graph().get(AssetKey(["shop", "books"])).tags
    assert (tags["team"], tags["tier"], tags["spindle/project"]) == ("prices", "", "shop")


def test_an_asset_has_the_owners_of_its_job() -> None:
    definitions = DefinitionsBuilder().build(Outlines([make_outline(owners=("ann@shop.example", "team:prices"))]))
    owners = definitions.resolve_asset_graph().get(AssetKey(["shop", "books"])).owners
    assert list(owners) == ["team:acme", "ann@shop.example", "team:prices"]


def test_sources_are_assets_without_events() -> None:
    site = SourceOutline(("web site", "shop.example:8000"), "web site", "https://shop.example:8000")
    upload = SourceOutline(("uploaded dataset", "shop", "old <b>"), "uploaded dataset", "spindle://shop/old <b>")
    outlines = [
        make_outline("books", sources=(site, upload), on_new_input=True),
        make_outline("films", sources=(site,), obstacle="It is off."),
    ]
    definitions = DefinitionsBuilder().build(Outlines(outlines))
    graph = definitions.resolve_asset_graph()
    keys = {AssetKey(site.key), AssetKey(upload.key)}
    assert graph.external_asset_keys == keys | {AssetKey(["shop", "films"])}
    assert graph.get(AssetKey(["shop", "books"])).parent_keys == keys
    assert graph.get(AssetKey(["shop", "films"])).parent_keys == {AssetKey(site.key)}
    assert {graph.get(key).group_name for key in keys} == {"sources"}
    assert "<b>" not in (graph.get(AssetKey(upload.key)).description or "").replace("\\<b\\>", "")


@pytest.mark.filterwarnings("ignore:.*include_sources")
def test_a_trigger_waits_for_no_events_of_sources() -> None:
    site = SourceOutline(("web site", "shop.example"), "web site", "https://shop.example")
    reader = make_outline("reader", inputs=(("shop", "books"),), sources=(site,), on_new_input=True)
    definitions = DefinitionsBuilder().build(Outlines([make_outline("books"), reader]))
    instance = DagsterInstance.ephemeral()
    before = evaluate_automation_conditions(definitions, instance)
    instance.report_runless_asset_event(AssetMaterialization(["shop", "books"]))
    after = evaluate_automation_conditions(definitions, instance, cursor=before.cursor)
    assert (before.total_requested, after.total_requested) == (0, 1)


def test_columns_have_descriptions_and_lineage() -> None:
    site, books = ("web site", "shop.example"), ("shop", "books")
    lineage = (
        ColumnOutline("Title", "A <script> *title*", ((site, "h1 > *b*"),)),
        ColumnOutline("all", None, ((site, None), (books, "a"), (books, "b")), is_whole=True),
        ColumnOutline("*", None, ((books, "*"),)),
    )
    outline = make_outline(lineage=lineage, columns=(("title", "string"), ("all", "string"), ("price", "double")))
    metadata = build_attributes(outline).metadata
    columns = {each.name: each for each in metadata["dagster/column_schema"].columns}
    title = columns["title"].description
    assert title == r"A \<script\> \*title\* (from h1 \> \*b\* of shop.example)"
    assert columns["all"].description == "(from all columns of shop.example, all columns of shop/books)"
    assert columns["price"].description == "(from price of shop/books)"
    assert metadata["dagster/column_lineage"].deps_by_column == {
        "title": [TableColumnDep(AssetKey(site), "h1 > *b*")],
        "all": [TableColumnDep(AssetKey(key), name) for key, name in ((books, "a"), (books, "b"), (site, "*"))],
        "price": [TableColumnDep(AssetKey(books), "price")],
    }


def test_an_asset_shows_its_freshness_and_trigger() -> None:
    outlines = [make_outline(max_age="PT26H", on_new_input=True), make_outline("bare", obstacle="x", max_age="P1D")]
    graph = DefinitionsBuilder().build(Outlines(outlines)).resolve_asset_graph()
    node, bare = graph.get(AssetKey(["shop", "books"])), graph.get(AssetKey(["shop", "bare"]))
    assert node.automation_condition == AutomationCondition.eager()
    assert node.freshness_policy == FreshnessPolicy.time_window(timedelta(hours=26))
    assert (bare.automation_condition, bare.freshness_policy) == (None, FreshnessPolicy.time_window(timedelta(days=1)))


def get_asset(definitions: Definitions, slug: str) -> AssetsDefinition | AssetSpec:
    return next(
        each
        for each in definitions.assets or ()
        if isinstance(each, AssetsDefinition | AssetSpec) and each.key == AssetKey(["shop", slug])
    )


def test_an_asset_shows_its_job() -> None:
    definitions = DefinitionsBuilder().build(Outlines([make_outline(description="All *prices*.")]))
    graph = definitions.resolve_asset_graph()
    node = graph.get(AssetKey(["shop", "books"]))
    assert (node.group_name, node.owners, node.kinds) == ("shop", ["team:acme"], {"local", "parquet"})
    assert "All *prices*." in (node.description or "")
    assert [(column.name, column.type) for column in node.metadata["dagster/column_schema"].columns] == [
        ("title", "string"),
        ("price", "double"),
    ]
    assert node.metadata["dagster/table_name"] == "spindle.shop.books"
    assert node.metadata["REST"].url.endswith("/projects/id/2/jobs/books")
    assert node.metadata["console"].url.endswith("/console/projects/2/jobs/books")
    assert PIPELINE in node.metadata["pipeline"].md_str
    asset = get_asset(definitions, "books")
    assert isinstance(asset, AssetsDefinition)
    assert isinstance(asset.node_def, GraphDefinition)
    names = ["start", "fetch", "extract", "extract_2", "write_output", "publish"]
    assert sorted(node.name for node in asset.node_def.nodes) == sorted(names)


def test_the_launchpad_offers_the_parameters_of_each_job() -> None:
    parameters = (ParameterOutline("LEAST", "", 3, int), ParameterOutline("SHOP", ""))
    outlines = [make_outline("books", parameters=parameters), make_outline("toys"), make_outline("games")]
    definitions = DefinitionsBuilder().build(Outlines(outlines))
    run = definitions.resolve_implicit_global_asset_job_def()
    fields = {
        name: ops.config_type.fields["config"].config_type.fields["parameters"].config_type.fields
        for name, ops in run.run_config_schema.config_type.fields["ops"].config_type.fields.items()
    }
    assert {name: sorted(found) for name, found in fields.items()} == {
        "shop__books": ["LEAST", "SHOP"],
        "shop__games": [],
        "shop__toys": [],
    }
    assert not any(field.is_required for field in fields["shop__books"].values())


def make_schedule(project: str, job_id: str | None = None) -> ScheduleOutline:
    return ScheduleOutline("7", project, project, "2", project.title(), "0 6 * * *", "UTC", True, job_id, job_id)


def test_a_project_is_a_job_that_its_schedule_targets() -> None:
    outlines = [make_outline("books"), make_outline("toys", obstacle="The job is disabled.")]
    repository = DefinitionsBuilder().build(Outlines(outlines, [make_schedule("shop")])).get_repository_def()
    job = repository.get_job("shop")
    assert set(job.asset_layer.executable_asset_keys) == {AssetKey(["shop", "books"])}
    assert repository.get_schedule_def("shop").job_name == "shop"


def test_the_schedule_of_a_project_without_a_job_to_execute_targets_all_assets() -> None:
    disabled = make_outline("toys", key=("toys", "toys"), project_id="3", obstacle="The job is disabled.")
    schedule = replace(make_schedule("toys"), project_id="3")
    outlines = Outlines([make_outline("books"), disabled], [schedule])
    repository = DefinitionsBuilder().build(outlines).get_repository_def()
    assert repository.get_schedule_def("toys").job_name == "__ASSET_JOB"


@each_case(
    ("job_id", "shown"),
    [("daily", ["daily"]), (None, ["books", "daily", "other"]), ("hourly", ["hourly"]), ("books", ["books"])],
)
def test_a_schedule_of_jobs_with_partitions_targets_their_assets(job_id: str | None, shown: list[str]) -> None:
    def split(by: str) -> Partitions:
        return read_partitions([{"by": by, "start": "2026-06-01", "parameter": "DAY"}])

    days = [make_outline(slug, partitions=split("day")) for slug in ("daily", "other")]
    outlines = [make_outline("books"), *days, make_outline("hourly", partitions=split("hour"))]
    repository = DefinitionsBuilder().build(Outlines(outlines, [make_schedule("shop", job_id)])).get_repository_def()
    job = repository.get_job(repository.get_schedule_def("shop").job_name)
    assert job.asset_layer.executable_asset_keys == {AssetKey(["shop", each]) for each in shown}


@pytest.mark.parametrize("project", ["start", "stage", "publish", "store_call", "call_cron_job", "asset"])
def test_a_project_may_have_any_name(project: str) -> None:
    outline = make_outline(key=(project, "books"), project_slug=project)
    definitions = DefinitionsBuilder().build(Outlines([outline], [make_schedule(project)]))
    assert definitions.resolve_asset_graph().get(AssetKey([project, "books"])).is_materializable
    assert definitions.get_repository_def().get_schedule_def(project).job_name.startswith(project)


def test_only_what_has_changed_is_built_anew() -> None:
    builder = DefinitionsBuilder()
    outlines = Outlines([make_outline("books"), make_outline("toys", inputs=(("shop", "books"),))])
    first = builder.build(outlines)
    assert not builder.has_changed(outlines)
    changed = Outlines([make_outline("books"), make_outline("toys", name="Renamed")])
    assert builder.has_changed(changed)
    second = builder.build(changed)
    assert get_asset(second, "books") is get_asset(first, "books")
    assert get_asset(second, "toys") is not get_asset(first, "toys")
    assert builder.has_changed(Outlines(changed.jobs[:1]))


def test_a_job_that_cannot_be_built_does_not_hide_the_others() -> None:
    step = make_outline().steps[0]
    broken = make_outline("broken", steps=(step, step))
    graph = DefinitionsBuilder().build(Outlines([make_outline(), broken])).resolve_asset_graph()
    assert graph.get(AssetKey(["shop", "books"])).is_materializable
    node = graph.get(AssetKey(["shop", "broken"]))
    assert not node.is_materializable
    assert "cannot show this job" in (node.description or "")


def test_assets_that_do_not_fit_together_are_shown_without_steps() -> None:
    same = make_outline("toys", job_id="9")
    cycle = [make_outline("a", inputs=(("shop", "b"),)), make_outline("b", inputs=(("shop", "a"),))]
    for outlines in ([make_outline(), same, same], [make_outline(), *cycle]):
        graph = DefinitionsBuilder().build(Outlines(outlines)).resolve_asset_graph()
        assert AssetKey(["shop", "books"]) in graph.get_all_asset_keys()


@pytest.mark.parametrize(
    "name",
    [
        "a/b",
        "\"quoted\" 'name'",
        "🦄 shop",
        "\u202egnp.exe",
        "<script>alert(1)</script>",
        "**bold** [x](javascript:1)",
        "",
    ],
)
def test_names_are_shown_literally(name: str) -> None:
    attributes = build_attributes(make_outline(name=name, description=f"About {name}.", agent_name=name))
    assert "\u202e" not in attributes.description
    assert "**bold**" not in attributes.description.partition("About")[0]
    assert "<script>" not in attributes.description.partition("About")[0]
    graph = DefinitionsBuilder().build(Outlines([make_outline(name=name)])).resolve_asset_graph()
    assert graph.get(AssetKey(["shop", "books"])).is_materializable


def test_descriptions_of_usual_names_are_plain_text() -> None:
    for name in ("all-404", "v1.2 (new) snake_case #3!", "Tom & Jerry + $5 {x}"):
        description = build_attributes(make_outline(name=name)).description
        assert description.startswith(f"Job {name} of the project ")
        assert "**" not in description
    assert escape_markdown("- _a_ &lt; [x](y)") == "\\- \\_a\\_ \\&lt; \\[x\\](y)"


def test_code_with_fences_stays_one_block() -> None:
    assert format_code("```\nx", "yaml") == "````yaml\n```\nx\n````"
    assert escape_markdown("a\n`b`") == "a \\`b\\`"


class TestService:
    """One running Spindle."""

    def load(self, service: Service) -> dict[tuple[str, ...], Any]:
        nodes = service.graphql(ASSETS)["assetNodes"]
        return {tuple(node["assetKey"]["path"]): node for node in nodes}

    def wait(self, service: Service, condition: Callable[[dict[tuple[str, ...], Any]], bool]) -> None:
        wait_until(lambda: condition(self.load(service)), PATIENCE_SECONDS, every=POLL_SECONDS)

    def test_changes_over_rest_are_visible(self, service: Service) -> None:
        job = service.make_job(PIPELINE)
        project = service.get(f"/projects/id/{job.project_id}")
        key = (project["name"].replace(" ", "_"), "rows")
        self.wait(service, lambda nodes: key in nodes and nodes[key]["isMaterializable"])
        assert any("extract_2" in name for name in self.load(service)[key]["opNames"])
        with service.client() as client:
            path = f"/projects/id/{job.project_id}/jobs"
            reader = f"pipeline: [{{stage: load_parquet, args: ['spindle://{key[0]}/rows']}}]"
            agent = client.post("/agents", json={"name": key[0], "pipelineYaml": reader}).json()["id"]
            body = {"name": "Reader", "agentId": agent}
            second = client.post(path, json=body).json()["id"]
            reading = (key[0], "reader")
            inputs = [{"path": [*key]}]
            self.wait(service, lambda nodes: reading in nodes and nodes[reading]["dependencyKeys"] == inputs)
            client.put(f"{path}/{second}", json={"name": "Renamed"})
            self.wait(service, lambda nodes: "Renamed" in nodes[reading]["description"])
            client.put(f"/agents/none/{agent}", json={"pipelineYaml": PIPELINE})
            sites = [{"path": ["web site", "shop"]}]
            self.wait(service, lambda nodes: nodes[reading]["dependencyKeys"] == sites)
            client.put(f"{path}/{second}", json={"enabled": False})
            self.wait(service, lambda nodes: not nodes[reading]["isMaterializable"])
            client.delete(f"/projects/id/{job.project_id}")
            self.wait(service, lambda nodes: not {key, reading} & nodes.keys())

    def test_the_launchpad_has_the_parameters_of_a_job(self, service: Service) -> None:
        job = service.make_job(PIPELINE.replace("shop/", "shop/${PAGES}/${KIND:-books}/${DAY}"))
        slug = service.get(f"/projects/id/{job.project_id}")["slug"]
        with service.client() as client:
            assert client.put(job.path, json={"parameters": {"PAGES": 3}}).is_success

        def load_launchpad(**parameters: Any) -> Json:
            selector = {"pipelineName": slug, **REPOSITORY}
            config = {"ops": {f"{slug}__rows": {"config": {"parameters": parameters}}}}
            return service.graphql(LAUNCHPAD, selector=selector, config=config)["runConfigSchemaOrError"]

        wait_until(lambda: "PAGES: 3" in load_launchpad().get("rootDefaultYaml", ""), 60, every=POLL_SECONDS)
        shown = yaml.safe_load(load_launchpad()["rootDefaultYaml"])["ops"][f"{slug}__rows"]["config"]
        assert shown["parameters"] == {"PAGES": 3, "KIND": "books"}
        (error,) = load_launchpad(PAGES="many", KIND=1, DAY="2026-06-01")["isRunConfigValid"]["errors"]
        assert (error["reason"], "parameters:PAGES" in error["message"]) == ("RUNTIME_TYPE_MISMATCH", True)
        assert load_launchpad(PAGES=4, OTHER=1)["isRunConfigValid"] == {"__typename": "PipelineConfigValidationValid"}

    def test_an_asset_shows_the_job_and_the_schedule_of_its_project(self, service: Service) -> None:
        job = service.make_job(PIPELINE.replace("shop/", "shop/${DAY:-}"))
        slug = service.get(f"/projects/id/{job.project_id}")["slug"]
        with service.client() as client:
            schedule = {"cronSchedule": "0 6 * * *", "timezone": "UTC"}
            client.put(f"/projects/id/{job.project_id}/schedule", json=schedule).raise_for_status()

        def list_schedules() -> list[str]:
            node = self.load(service).get((slug, "rows"), {"targetingInstigators": []})
            return [each["name"] for each in node["targetingInstigators"]]

        wait_until(lambda: list_schedules() == [slug], PATIENCE_SECONDS, every=POLL_SECONDS)
        assert slug in self.load(service)[slug, "rows"]["jobNames"]
        with service.client() as client:
            days = {"by": "day", "start": "2026-06-01", "parameter": "DAY"}
            client.put(job.path, json={"partitions": [days]}).raise_for_status()
        self.wait(service, lambda nodes: slug not in nodes[slug, "rows"]["jobNames"])
        assert list_schedules() == [slug]

    def test_the_code_server_is_replaced_when_it_dies(self, service: Service) -> None:
        template, child = service.pids("orchestration.code_server")
        os.kill(child, signal.SIGKILL)
        wait_until(lambda: service.pids("orchestration.code_server")[1:] not in ([], [child]), PATIENCE_SECONDS)
        assert service.pids("orchestration.code_server")[0] == template
        job = service.make_job(PIPELINE)
        name = service.get(f"/projects/id/{job.project_id}")["name"].replace(" ", "_")
        self.wait(service, lambda nodes: (name, "rows") in nodes)
        assert len(service.pids("orchestration.code_server")) == 2

    def test_a_new_code_server_shows_its_id_when_the_earlier_one_has_ended(self, service: Service) -> None:
        """A client that sees the id loads the definitions by another connection, which either may answer."""
        (workspace,) = yaml.safe_load((service.data / "dagster" / "workspace.yaml").read_text())["load_from"]
        client = DagsterGrpcClient(port=workspace["grpc_server"]["port"], host="127.0.0.1")

        def show_id() -> str | None:
            try:
                return client.get_server_id(timeout=1)
            except DagsterUserCodeUnreachableError:
                return None  # the stopped one should have answered

        def list_children() -> list[int]:
            return service.pids("orchestration.code_server")[1:]

        wait_until(lambda: len(list_children()) == 1, PATIENCE_SECONDS)
        earlier, shown = list_children()[0], client.get_server_id()
        os.kill(earlier, signal.SIGSTOP)
        try:
            job = service.make_job(PIPELINE)
            wait_until(lambda: len(list_children()) == 2, PATIENCE_SECONDS)
            answers = [answer for _ in range(9) if (answer := show_id()) is not None]
            # it is killed after half a minute, also when a slow machine takes that long to ask
            assert set(answers) <= {shown} or earlier not in list_children()
        finally:
            with suppress(ProcessLookupError):
                os.kill(earlier, signal.SIGCONT)
        wait_until(lambda: show_id() not in (None, shown), PATIENCE_SECONDS, every=POLL_SECONDS)
        name = service.get(f"/projects/id/{job.project_id}")["name"].replace(" ", "_")
        self.wait(service, lambda nodes: (name, "rows") in nodes)
