"""A job's asset in Dagster: what materializes it, and its columns."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.service import PATIENCE_SECONDS, POLL_SECONDS, Job, Json, Service, wait_until
from tests.support.site import Site

HISTORY = """\
pipeline:
  - {{stage: load_csv, args: [{{path: "{file}", header: true}}]}}
output: {{mode: history, keys: [sku], format: {format}}}
"""
ASSET = """query ($key: [String!]!) { assetOrError(assetKey: {path: $key}) { ... on Asset {
  assetMaterializations { ...Seen } assetObservations { ...Seen } } } }
fragment Seen on DisplayableEvent { __typename description metadataEntries { label
  ... on IntMetadataEntry { intValue } ... on TableSchemaMetadataEntry { schema { columns { name } } } } }"""


def load_asset(service: Service, job: Job) -> Json:
    slug = service.get(f"/projects/id/{job.project_id}")["slug"]
    return service.graphql(ASSET, key=[slug, "rows"])["assetOrError"]


def read_metadata(event: Json) -> dict[str, Any]:
    return {entry["label"]: entry for entry in event["metadataEntries"]}


@pytest.mark.long
def test_a_run_without_change_is_observed_and_a_restore_materializes(service: Service) -> None:
    file = service.files / "history.csv"
    job = service.make_job(HISTORY.format(file=file, format="parquet"))

    def run(rows: str) -> Json:
        file.write_text(f"sku,price\n{rows}")
        execution = service.complete(job, seconds=120)
        wait_until(lambda: service.runs(execution)[0]["status"] == "SUCCESS", PATIENCE_SECONDS, every=POLL_SECONDS)
        return load_asset(service, job)

    run("a,1\nb,2\n")
    asset = run("a,1\nb,2\n")
    assert len(asset["assetMaterializations"]) == 1
    (observed,) = asset["assetObservations"]
    shown = read_metadata(observed)
    assert shown["dagster/row_count"]["intValue"] == 2
    columns = [each["name"] for each in shown["dagster/column_schema"]["schema"]["columns"]]
    assert columns == ["sku", "price", "valid_from", "valid_to", "is_current"]
    asset = run("a,1\nb,3\n")
    newest = read_metadata(asset["assetMaterializations"][0])
    assert (len(asset["assetMaterializations"]), newest["dagster/row_count"]["intValue"]) == (2, 3)
    dataset = service.get(job.path)["outputDatasetId"]
    service.post(f"/datasets/{dataset}/versions/1/restore", {})

    def list_materializations() -> list[Json]:
        return load_asset(service, job)["assetMaterializations"]

    wait_until(lambda: len(list_materializations()) == 3, PATIENCE_SECONDS, every=POLL_SECONDS)
    restored = read_metadata(list_materializations()[0])
    assert restored["dagster/row_count"]["intValue"] == 2
    assert (restored["version"]["intValue"], restored["restored from version"]["intValue"]) == (3, 1)


CRAWL = """\
fetch: {{url: "{url}/"}}
pipeline:
  - {{stage: extract, args: [{{selector: h1, as: title, description: "The *name*"}}, {{selector: b, as: colour}}]}}
  - {{stage: save_jsonl, args: [kept]}}
"""
JOIN = """\
pipeline:
  - {{stage: load_parquet, args: ["spindle://{project}/rows"]}}
  - stage: sql_query
    args: ["SELECT r.title AS name, upper(m.colour) AS loud FROM rows r JOIN more m ON r.title = m.title",
           {{dialect: {dialect}, tables: {{more: {project}.rows}}}}]
"""
ASSET_COLUMNS = """query ($key: [String!]!) { assetNodeOrError(assetKey: {path: $key}) { ... on AssetNode {
  dependencyKeys { path } assetMaterializations(limit: 1) { metadataEntries { label
    ... on TableColumnLineageMetadataEntry { lineage { columnName columnDeps { assetKey { path } columnName } } }
    ... on TableSchemaMetadataEntry { schema { columns { name description } } } } } } } }"""


def read_columns(service: Service, project: str) -> Json:
    """Return the description of each column, and the columns of assets that it is made of."""

    def find_node() -> Json:  # a quick execution ends before the definitions have its new job
        return service.graphql(ASSET_COLUMNS, key=[project, "rows"])["assetNodeOrError"]

    wait_until(lambda: find_node().get("assetMaterializations"), PATIENCE_SECONDS, every=POLL_SECONDS)
    node = find_node()
    entries = {each["label"]: each for each in node["assetMaterializations"][0]["metadataEntries"]}
    lineage = {
        each["columnName"]: sorted(("/".join(one["assetKey"]["path"]), one["columnName"]) for one in each["columnDeps"])
        for each in entries["dagster/column_lineage"]["lineage"]
    }
    described = entries["dagster/column_schema"]["schema"]["columns"]
    return {each["name"]: (each["description"], lineage.get(each["name"])) for each in described}


def execute(service: Service, pipeline: str) -> tuple[Job, str]:
    """Execute a new job until its run has ended; return it with the name of its project."""
    job = service.make_job(pipeline)
    execution = service.complete(job, seconds=120)
    wait_until(lambda: service.runs(execution)[0]["status"] == "SUCCESS", PATIENCE_SECONDS, every=POLL_SECONDS)
    return job, service.get(f"/projects/id/{job.project_id}")["slug"]


@pytest.mark.long
@pytest.mark.parametrize("dialect", ["trino", "spark"])
def test_columns_are_followed_from_page_to_page_and_from_job_to_job(service: Service, web: Site, dialect: str) -> None:
    url = web.serve({"/": "<h1>Apple</h1><b>red</b>"})
    _, project = execute(service, CRAWL.format(url=url))
    host = url.removeprefix("http://")
    site = f"web site/{host}"
    assert read_columns(service, project) == {
        "title": (rf"The \*name\* (from h1 of {host})", [(site, "h1")]),
        "colour": (f"(from b of {host})", [(site, "b")]),
    }
    saved = next(each for each in service.get("/datasets") if each["storagePath"] == f"spindle://{project}/kept")
    columns = service.get(f"/datasets/{saved['id']}/lineage?columns=true")["columns"]
    assert [(each["name"], each["description"], each["sources"][0]["source"]) for each in columns] == [
        ("title", "The *name*", url),
        ("colour", None, url),
    ]
    _, joined = execute(service, JOIN.format(project=project, dialect=dialect))
    assert read_columns(service, joined) == {
        "name": (f"(from title of {project}/rows)", [(f"{project}/rows", "title")]),
        "loud": (f"(from colour of {project}/rows)", [(f"{project}/rows", "colour")]),
    }
