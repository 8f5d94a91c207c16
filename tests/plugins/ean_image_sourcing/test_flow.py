"""Images of EANs from the upload to the answers, over HTTP, with drivers that fetch from local servers."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from tests.plugins.ean_image_sourcing.countries import BASE
from tests.plugins.ean_image_sourcing.products import make_ean, serve_products
from tests.support.search_engines import ENGINE, KEY, SearchServer, serve_search
from tests.support.service import PATIENCE_SECONDS, POLL_SECONDS, Job, Service, wait_until
from tests.support.site import Site

pytestmark = pytest.mark.long

EANS = int(os.environ.get("SPINDLE_TEST_EANS", "60"))  # 1,000 take minutes
SECONDS = PATIENCE_SECONDS * max(1, EANS // 60)
RESULTS = 3
COUNTS = (
    "SELECT count(*) AS n, count(DISTINCT ean) AS eans, count(DISTINCT image_url) AS urls, "
    "count(CASE WHEN image_status = 'dead' THEN 1 END) AS dead, count(page_product_name) AS names FROM output"
)


@pytest.fixture
def search() -> Iterator[SearchServer]:
    with serve_search() as search:
        yield search


def add_credential(service: Service, search: SearchServer, provider: str) -> str:
    fields = {"name": provider, "provider": provider, "apiKey": KEY, "engineId": ENGINE, "endpoint": search.url}
    return service.post("/cloud-credentials", fields)["id"]


def execute(service: Service, country: str, eans: list[str], credential: str) -> tuple[Job, str]:
    with service.client() as client:
        stored = client.post(f"{BASE}/{country}/upload", files={"file": ("eans.csv", "\n".join(["ean", *eans]))})
    assert stored.json()["rowCount"] == len(eans), stored.text
    submitted = service.post(f"{BASE}/{country}/execute", {"cloudCredentialIds": [credential]})
    status = service.get(f"{BASE}/{country}/status")
    return Job(status["projectId"], status["latestJobId"]), submitted["executionId"]


def fetch_over_http(service: Service, country: str) -> None:
    """Let the country's agent fetch the pages of results without a browser."""
    service.post(f"{BASE}/{country}/schedule", {"cronSchedule": "0 3 1 1 *", "enabled": False})
    countries = service.get(f"{BASE}/bootstrap/status")["countries"]
    (place,) = (each for each in countries if each["country"] == country)
    agent: dict[str, Any] = next(each for each in service.get("/agents") if each["id"] == place["agentId"])
    text = agent["pipelineYaml"].replace("stage: visit,", "stage: wget,")
    with service.client() as client:
        changed = {"name": agent["name"], "pipelineYaml": text}
        answer = client.put(f"/agents/{agent['categoryId']}/{agent['id']}", json=changed)
    assert answer.is_success, answer.text


def count_rows(service: Service, country: str) -> dict[str, int]:
    (counts,) = service.post(f"{BASE}/{country}/query", {"sql": COUNTS})["results"]
    return counts


def find_driver(service: Service, execution: str) -> int:
    (pidfile,) = (service.data / "drivers").glob(f"*.{execution}.1")
    return int(pidfile.read_text())


@pytest.mark.variant
def test_rows_are_whole_after_a_killed_driver(service: Service, site: Site, search: SearchServer) -> None:
    eans = [make_ean(number) for number in range(EANS)]
    serve_products(site, search, eans, RESULTS)
    search.delay = 0.05
    fetch_over_http(service, "italy")
    held = f"/i/{eans[EANS * 2 // 3]}/1.jpg"
    site.hold({held})
    job, execution = execute(service, "italy", eans, add_credential(service, search, "GOOGLE_SEARCH"))
    wait_until(lambda: site.requests[held], SECONDS)
    os.kill(find_driver(service, execution), signal.SIGKILL)
    wait_until(
        lambda: len(service.get(f"{job.path}/executions/{execution}/attempts")) == 2,
        PATIENCE_SECONDS,
        every=POLL_SECONDS,
    )
    site.hold(())
    assert service.wait(job, execution, seconds=SECONDS)["status"] == "COMPLETED"
    rows = len(eans) * RESULTS
    assert count_rows(service, "italy") == {"n": rows, "eans": EANS, "urls": rows, "dead": EANS // 5, "names": rows}
    best = service.post(f"{BASE}/italy/images", {"eans": eans, "limit": 1, "includeThumbnails": True})["results"]
    assert {each["ean"] for each in best} == {*eans}
    assert all(each["thumbnail"] for each in best)
    files = [*(service.data / "storage").glob("*/files/*")]
    again = execute(service, "italy", eans, add_credential(service, search, "BING_SEARCH"))
    assert service.wait(*again, seconds=SECONDS)["status"] == "COMPLETED"
    assert count_rows(service, "italy")["n"] == rows
    assert "/v7.0/images/search" in search.requests[-1]
    assert [*(service.data / "storage").glob("*/files/*")] == files  # of both executions


def test_pages_of_results_are_opened_with_chromium(service: Service, site: Site, search: SearchServer) -> None:
    eans = [make_ean(number) for number in range(20)]
    serve_products(site, search, eans, RESULTS)
    credential = add_credential(service, search, "GOOGLE_SEARCH")
    job, execution = execute(service, "malta", eans, credential)
    assert service.wait(job, execution)["status"] == "COMPLETED"
    rows = len(eans) * RESULTS
    assert count_rows(service, "malta") == {"n": rows, "eans": 20, "urls": rows, "dead": 4, "names": rows}
    assert "visit $result_link" in str(service.get(f"{job.path}/executions/{execution}"))
