"""Countries with EANs and images, without a search: the test plays the driver's part."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import httpx
import pyarrow as pa

from core.infra.storage.protocol import output_key
from tests.support.api import Api, Job
from tests.support.stored import store_rows

BASE = "/ean-image-sourcing"
CHECKED_AT = datetime(2026, 1, 1, 12, tzinfo=UTC)
EANS = ("4006381333931", "0012345678905", "96385074")


def upload(api: Api, country: str, body: bytes) -> httpx.Response:
    return api.call("POST", f"{BASE}/{country}/upload", files={"file": ("eans.csv", body)})


def make_image(ean: str, rank: int, score: float | None) -> dict[str, object]:
    return {
        "ean": ean,
        "image_url": f"http://shop.test/{ean}/{rank}.jpg",
        "image_score": score,
        "image_width": 400,
        "image_height": 300,
        "image_type": "image/jpeg",
        "image_sha256": f"{rank:064x}" if score else None,
        "image_reasons": ["agrees with 1 of 2 other images"],
        "image_thumbnail": f"{rank + 1000:064x}" if score else None,
        "image_status": "usable" if score else "dead",
        "image_checked_at": CHECKED_AT + timedelta(days=rank),
        "result_link": "http://shop.test/",
        "result_title": f"Product {ean}",
        "result_rank": rank,
    }


def complete(job: Job, execution: str, rows: list[dict[str, object]]) -> None:
    """Report the rows as the driver does."""
    types = {"ean": "string", "image_url": "string", "image_score": "double", "image_width": "int"}
    types |= {"image_height": "int", "image_type": "string", "image_sha256": "string"}
    types |= {"image_reasons": "array<string>", "image_thumbnail": "string"}
    types |= {"image_status": "string", "image_checked_at": "timestamp"}
    types |= {"result_link": "string", "result_title": "string", "result_rank": "int"}
    stored = store_rows(job.api.settings, output_key(job.api.organization_id, execution, 1), pa.Table.from_pylist(rows))
    schema = json.dumps([{"name": name, "type": type_} for name, type_ in types.items()])
    output = {"outputDatasetPath": stored, "outputDatasetFormat": "parquet", "outputDatasetSchema": schema}
    job.report(execution, "COMPLETED", **output, recordsOutput=len(rows), outputFileSizeBytes=1234)


def fill_country(api: Api, country: str) -> str:
    """Give a country an EAN and an image; return its name."""
    upload(api, country, f"ean\n{EANS[0]}\n".encode())
    execution = api.post(f"{BASE}/{country}/execute", {})["executionId"]
    status = api.get(f"{BASE}/{country}/status")
    complete(Job(api, status["projectId"], status["latestJobId"], ""), execution, [make_image(EANS[0], 1, 0.5)])
    return country
