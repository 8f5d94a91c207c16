"""What counts as a materialization of a job's asset: runs that change its table, and restores, but no others."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.service import PATIENCE_SECONDS, POLL_SECONDS, Job, Json, Service, wait_until

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
