"""Executions on a Spark cluster whose workers are other users with folders of their own; the storage is a bucket."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.support.s3 import get_bucket
from tests.support.service import POLL_SECONDS, Job, Json, Service, wait_until
from tests.support.site import Site, serve_site
from tests.support.spark_cluster import SparkCluster, start_cluster

pytestmark = pytest.mark.long

PAGES = 40
RUN_SECONDS = 300  # executors start for every execution, with the libraries for the bucket
SITE = {
    "/": "".join(f"<a href='/p{number}'>{number}</a>" for number in range(PAGES)),
    **{f"/p{number}": f"<h1>page {number}</h1>" for number in range(PAGES)},
}
PIPELINE = """\
fetch: {{url: "{url}/"}}
pipeline:
  - {{stage: wgetJoin, args: [a]}}
  - {{stage: extract, args: [{{selector: h1, method: text, as: title}}]}}
  - {{stage: "python_row_transform:shout"}}
  - {{stage: cache, args: []}}
  - {{stage: save_csv, args: [titles]}}
"""
SHOUT = "def shout(row):\n    return {'title': row['title'].upper()}\n"
BROWSER = """\
pipeline:
  - {{stage: visit, args: ["{url}/p1"]}}
  - {{stage: extract, args: [{{selector: h1, method: text, as: title}}]}}
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[SparkCluster]:
    get_bucket()  # skips without one
    with start_cluster() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def service(cluster: SparkCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    environment = {**get_bucket().environment, "SPINDLE_SPARK_MASTER": cluster.url}
    service = Service(tmp_path_factory.mktemp("clustered") / "data", environment).start()
    yield service
    assert service.stop() == 0


@pytest.fixture
def site() -> Iterator[Site]:
    with serve_site() as site:
        site.serve(SITE)
        yield site


@pytest.fixture
def job(service: Service, site: Site) -> Job:
    job = service.make_job(PIPELINE.format(url=site.url))
    agent = service.get(job.path)["agentId"]
    service.post(f"/agents/{agent}/python-extensions", {"extensionType": "row_transform", "function": SHOUT})
    return job


def read_titles(service: Service, execution: Json) -> list[str]:
    with service.client() as client:
        answer = client.get(f"/datasets/{execution['datasetId']}/download", params={"format": "jsonl"})
    assert answer.is_success, answer.text
    return sorted(line.split('"')[3] for line in answer.text.splitlines())


def test_rows_are_those_of_one_machine(service: Service, job: Job) -> None:
    execution = service.execute(job)
    status = service.wait(job, execution, seconds=RUN_SECONDS)
    assert (status["status"], status["executorPodCount"]) == ("COMPLETED", 2), status
    titles = read_titles(service, service.get(f"{job.path}/executions/{execution}"))
    assert titles == sorted(f"PAGE {number}" for number in range(PAGES))
    logs = f"{job.path}/executions/{execution}/logs?tail=10000&podType="

    def read_log(whose: str) -> list[str]:
        return service.get(f"{logs}{whose}")["logs"]

    def has_whole_logs() -> bool:  # the last part of the log is stored once the driver has ended
        first, second = (read_log(f"executor&executorIndex={number}") for number in (0, 1))
        return bool(first and second) and len(read_log("executor")) == len(first) + len(second)

    wait_until(has_whole_logs, RUN_SECONDS, every=POLL_SECONDS)
    assert not {*read_log("driver")} & {*read_log("executor")}


def test_a_browser_renders_pages_on_the_workers(service: Service, site: Site) -> None:
    job = service.make_job(BROWSER.format(url=site.url))
    execution = service.complete(job, seconds=RUN_SECONDS)
    assert read_titles(service, service.get(f"{job.path}/executions/{execution}")) == ["page 1"]


def test_rows_are_whole_though_a_worker_is_killed(
    service: Service, job: Job, site: Site, cluster: SparkCluster
) -> None:
    site.hold([f"/p{number}" for number in range(0, PAGES, 2)])
    execution = service.execute(job)
    wait_until(lambda: sum(site.requests.values()) > 4, RUN_SECONDS)
    cluster.find_executors()[-1].kill()  # the first may be one of an execution before
    site.hold(())
    status = service.wait(job, execution, seconds=RUN_SECONDS)
    assert status["status"] == "COMPLETED", status
    titles = read_titles(service, service.get(f"{job.path}/executions/{execution}"))
    assert titles == sorted(f"PAGE {number}" for number in range(PAGES))


def test_cancel_ends_the_executors(service: Service, job: Job, site: Site, cluster: SparkCluster) -> None:
    site.hold(SITE)
    execution = service.execute(job)
    wait_until(lambda: site.requests["/"], RUN_SECONDS)
    executors = cluster.find_executors()
    assert executors
    service.post(f"{job.path}/executions/{execution}/cancel", {})
    assert "cancelled" in service.status(job, execution)["errorMessage"]
    psutil.wait_procs(executors, timeout=30)
    assert not any(each.is_running() and each.status() != psutil.STATUS_ZOMBIE for each in executors)


def test_secrets_reach_workers_over_the_coordinator_only(cluster: SparkCluster) -> None:
    files = [path for path in Path(cluster.folder).rglob("*") if path.is_file()]
    secret = get_bucket().secret_key.encode()
    assert not [path for path in files if path.suffix != ".jar" and secret in path.read_bytes()]
