"""Outputs that another Spark wrote to the organization's storage and reports by the completion webhook."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq

from core.infra.storage import open_storage
from tests.support.api import Api

ROWS = pa.table({"city": ["Rome", "Oslo"], "n": [1, 2]})


def write(api: Api, key: str) -> str:
    buffer = io.BytesIO()
    pq.write_table(ROWS, buffer)
    buffer.seek(0)
    storage = open_storage(api.settings.storage)
    storage.put(f"{key}/part-0.parquet", buffer)
    storage.put(f"{key}/_SUCCESS", io.BytesIO())
    return storage.url_for(key, "spark")


def test_columns_and_counts_are_read_from_the_files(acme: Api) -> None:
    job = acme.job("foreign spark")
    path = write(acme, f"{acme.organization_id}/spark/cities")
    address = path if "://" in path else f"file:{path}"
    claimed = {"outputDatasetSchema": '[{"name": "lie", "type": "int"}]', "recordsOutput": 7}
    job.report(job.execute(), "COMPLETED", outputDatasetPath=f"{address}/", **claimed)
    dataset = acme.get(f"/datasets/{acme.get(job.path)['outputDatasetId']}")
    assert (dataset["rowCount"], dataset["format"], dataset["indexed"]) == (2, "parquet", True)
    rows = acme.post("/datasets/query", {"sql": "SELECT * FROM foreign_spark.foreign_spark ORDER BY n"})["results"]
    assert rows == [{"city": "Rome", "n": 1}, {"city": "Oslo", "n": 2}]


def test_paths_outside_of_the_organizations_storage_are_not_published(acme: Api, rival: Api) -> None:
    job = acme.job("foreign paths")
    theirs = write(rival, f"{rival.organization_id}/spark/cities")
    own = open_storage(acme.settings.storage).url_for(acme.organization_id, "spark")
    write(acme, f"{acme.organization_id}/pages/x")
    for path in (
        theirs,
        f"{own}/../{rival.organization_id}/spark/cities",
        "/etc",
        "s3://bucket/x",
        f"{own}/pages/x",
        own,
    ):
        execution = job.execute()
        job.report(execution, "COMPLETED", outputDatasetPath=path)
        assert job.status(execution)["status"] == "COMPLETED"
        assert acme.get(job.path)["outputDatasetId"] is None, path
