"""A service on this machine whose drivers are pods: rows, logs, cancel, and secrets that nobody sees."""

from __future__ import annotations

import os
import subprocess
import sys
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from core.infra.pods import INSTANCE, SPARK_PAGE_PORT
from core.infra.settings import Settings
from orchestration.compute.kubernetes.pods import build_pod
from orchestration.compute.protocol import DriverHandle
from tests.support.cluster import KubernetesCluster
from tests.support.libraries import needs_libraries
from tests.support.s3 import Bucket
from tests.support.service import PATIENCE_SECONDS, Job, Service, free_port, wait_until
from tests.support.site import GatedSite, Site

pytestmark = pytest.mark.long

CRAWL = """
fetch: {{url: '{url}/'}}
pipeline:
  - {{stage: wgetJoin, args: [a]}}
  - {{stage: extract, args: [{{selector: h1, method: text, as: title}}]}}
"""
SELECT = "SELECT title FROM dataset ORDER BY title"
FORBIDDEN = 403
HISTORY_PORT = free_port()
EXECUTORS_SECONDS = 300  # two JVMs after one another, on busy cores


@pytest.fixture(scope="module")
def service(cluster: KubernetesCluster, bucket: Bucket, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    port = free_port()
    data = tmp_path_factory.mktemp("service") / "data"
    service = Service(data, cluster.build_environment(bucket, port), port=port).start()
    yield service
    service.stop()


def test_rows_of_a_pod_are_queried(service: Service, cluster: KubernetesCluster, web: Site) -> None:
    links = "".join(f"<a href='/{name}'>{name}</a>" for name in "abc")
    web.serve({"/": links, **{f"/{name}": f"<h1>Page {name}</h1>" for name in "abc"}})
    job = service.make_job(CRAWL.format(url=cluster.expose(web.url)))
    execution = service.execute(job)
    status = service.wait(job, execution)
    assert status["status"] == "COMPLETED", status
    dataset = service.get(job.path)["outputDatasetId"]
    rows = service.post("/datasets/query", {"sql": SELECT, "datasetId": dataset})["results"]
    assert rows == [{"title": f"Page {name}"} for name in "abc"]
    assert (status["executorPodCount"], status["sparkUiUrl"]) == (0, None)
    with service.client() as client:
        spark = f"http://127.0.0.1:{service.port}/api/svc/cloud/spark"
        assert client.get(f"{spark}/health").json() == {"status": "UP", "ageSeconds": 0}
        facts = client.get(f"{spark}/info").json()
    assert (facts["compute"], facts["namespace"], facts["runningExecutors"]) == ("kubernetes", cluster.namespace, 0)
    logs = f"{job.path}/executions/{execution}/logs"
    wait_until(lambda: "completed" in "".join(service.get(logs)["logs"]), PATIENCE_SECONDS, every=1)
    wait_until(lambda: not cluster.list_pods() and not cluster.list_secrets(), PATIENCE_SECONDS)


def test_a_cancel_leaves_no_pod_and_nobody_sees_a_secret(
    service: Service, cluster: KubernetesCluster, bucket: Bucket, site: GatedSite
) -> None:
    job = service.make_job(CRAWL.format(url=cluster.expose(site.url.rstrip("/"))))
    execution = service.execute(job)
    site.wait_for_visitor()
    (secret,) = cluster.list_secrets()
    values = [b64decode(value).decode() for value in secret.data.values()]
    assert any(bucket.secret_key in value for value in values)  # it is there, and only there
    for kind, text in cluster.dump().items():
        assert not [canary for canary in (bucket.secret_key, "whsec_") if canary in text], kind
    service.post(f"{job.path}/executions/{execution}/cancel", {})
    wait_until(lambda: not cluster.list_pods(), PATIENCE_SECONDS)
    wait_until(lambda: not cluster.list_secrets(), PATIENCE_SECONDS)


def test_pods_of_executions_that_are_over_are_swept(
    service: Service, cluster: KubernetesCluster, bucket: Bucket
) -> None:
    left = build_pod(Settings(**cluster.build_settings(bucket)), DriverHandle("nobody", "nothing", 1), (), ())
    cluster.core.create_namespaced_pod(cluster.namespace, left)
    other = left | {"metadata": {"name": "other", "labels": left["metadata"]["labels"] | {INSTANCE: "another"}}}
    cluster.core.create_namespaced_pod(cluster.namespace, other)
    wait_until(lambda: [pod.metadata.name for pod in cluster.list_pods()] == ["other"], PATIENCE_SECONDS)
    cluster.core.delete_namespaced_pod("other", cluster.namespace, grace_period_seconds=0)


def check_spark_page(service: Service, cluster: KubernetesCluster, job: Job, execution: str) -> None:
    """Read the page of a running driver, whose links lead back to the service, and which takes no other requests."""
    wait_until(lambda: service.status(job, execution)["sparkUiUrl"], EXECUTORS_SECONDS, every=1)
    url = service.status(job, execution)["sparkUiUrl"]
    base = urlsplit(url).path
    with service.client() as client:
        page = client.get(url)
        assert page.status_code == 200, page.text
        assert f'href="{base}stages/"' in page.text
        for part, content in (("static/webui.css", "{"), ("environment/", "redacted")):
            answer = client.get(f"{url}{part}")
            assert (answer.status_code, content in answer.text) == (200, True), answer.text
    (driver,) = (pod for pod in cluster.list_pods() if "exec" not in pod.metadata.name)
    direct = httpx.get(f"http://{driver.status.pod_ip}:{SPARK_PAGE_PORT}/jobs/", timeout=30, trust_env=False)
    assert direct.status_code == FORBIDDEN


@pytest.fixture(scope="module")
def spark_service(
    cluster: KubernetesCluster, bucket: Bucket, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    """A service whose drivers create executors."""
    port = free_port()
    environment = {
        **cluster.build_environment(bucket, port),
        "SPINDLE_KUBERNETES_INSTANCE": "spark",  # the service above deletes the pods that it does not know
        "SPINDLE_SPARK_MASTER": "k8s://https://kubernetes.default.svc:443",
        "SPINDLE_SPARK_EXECUTOR_MEMORY": "512m",
        "SPINDLE_KUBERNETES_EXECUTOR_CPU": "100m",
        "SPINDLE_ENGINE": "spark",
        "SPINDLE_SPARK_EVENT_LOG": "1",
        "SPINDLE_SPARK_HISTORY_URL": f"http://127.0.0.1:{HISTORY_PORT}",
    }
    service = Service(tmp_path_factory.mktemp("spark") / "data", environment, port=port).start()
    yield service
    service.stop()


def test_a_driver_has_executors_in_pods(spark_service: Service, cluster: KubernetesCluster, web: Site) -> None:
    seen = set[str]()
    names = [f"p{number}" for number in range(8)]
    links = "".join(f"<a href='/{name}'>{name}</a>" for name in names)
    web.serve({"/": links, **{f"/{name}": f"<h1>Page {name}</h1>" for name in names}})
    web.hold(["/p7"])
    job = spark_service.make_job(CRAWL.format(url=cluster.expose(web.url)))
    execution = spark_service.execute(job)

    def has_ended() -> bool:
        seen.update(list_executors(cluster))
        return spark_service.status(job, execution)["status"] in ("COMPLETED", "FAILED")

    check_spark_page(spark_service, cluster, job, execution)
    web.hold(())
    wait_until(has_ended, EXECUTORS_SECONDS, every=1)
    ended = spark_service.get(f"{job.path}/executions/{execution}")
    assert ended["status"] == "COMPLETED", ended["errorMessage"]
    assert len(seen) == 2
    status = spark_service.status(job, execution)
    assert status["executorPodCount"] == 2
    dataset = spark_service.get(job.path)["outputDatasetId"]
    rows = spark_service.post("/datasets/query", {"sql": SELECT, "datasetId": dataset})["results"]
    assert [row["title"] for row in rows] == [f"Page {name}" for name in names]
    logs = spark_service.get(f"{job.path}/executions/{execution}/logs?podType=executor&executorIndex=1")["logs"]
    assert logs
    wait_until(lambda: not cluster.list_pods(), PATIENCE_SECONDS)


@needs_libraries
def test_executors_come_with_the_tasks_and_the_page_stays(
    spark_service: Service, cluster: KubernetesCluster, bucket: Bucket, tmp_path: Path, web: Site
) -> None:
    names = [f"p{number}" for number in range(4)]
    links = "".join(f"<a href='/{name}'>{name}</a>" for name in names)
    web.serve({"/": links, **{f"/{name}": f"<h1>Page {name}</h1>" for name in names}})
    web.hold([f"/{name}" for name in names])
    job = spark_service.make_job(CRAWL.format(url=cluster.expose(web.url)))
    with spark_service.client() as client:
        assert client.put(job.path, json={"parameters": {"cluster": {"dynamicAllocation": True}}}).is_success
    execution = spark_service.execute(job)
    wait_until(lambda: len(list_executors(cluster)) == 2, EXECUTORS_SECONDS, every=1)
    web.hold(())
    ended = spark_service.wait(job, execution, seconds=EXECUTORS_SECONDS)
    assert (ended["status"], ended["executorPodCount"]) == ("COMPLETED", 2), ended
    wait_until(lambda: not cluster.list_pods(), PATIENCE_SECONDS)
    settings = {f"SPINDLE_{name.upper()}": str(value) for name, value in bucket.settings.items()}
    environment = {**os.environ, **settings, "SPINDLE_STORAGE": spark_service.environment["SPINDLE_STORAGE"]}
    command = [sys.executable, "-m", "cli.main", "history", "--data", str(tmp_path), "--port", str(HISTORY_PORT)]
    with subprocess.Popen(command, env=environment) as server, spark_service.client() as client:
        try:
            wait_until(lambda: client.get(ended["sparkUiUrl"]).status_code == 200, PATIENCE_SECONDS, every=1)
            executors = client.get(f"{ended['sparkUiUrl']}api/v1/applications/{execution}/1/allexecutors").json()
            assert len([each for each in executors if each["id"] != "driver"]) == 2
        finally:
            server.terminate()


def list_executors(cluster: KubernetesCluster) -> list[str]:
    return [pod.metadata.name for pod in cluster.list_pods() if "exec" in pod.metadata.name]
