"""The chart, installed as deploy/README.md says: rows over REST from outside, and a service that is replaced."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import kubernetes
import pytest
from kubernetes.client.exceptions import ApiException
from sqlalchemy import make_url

from core.infra.pods import EXIT_CODE
from tests.support import postgres
from tests.support.cluster import DEPLOY, KubernetesCluster
from tests.support.s3 import Bucket
from tests.support.service import PATIENCE_SECONDS, Service, wait_until
from tests.support.site import GatedSite, Site

pytestmark = pytest.mark.long

CRAWL = """
fetch: {{url: '{url}/'}}
spindle: {{timeout: 180}}
pipeline: [{{stage: extract, args: [{{selector: h1, method: text, as: title}}]}}]
"""
SELECT = "SELECT title FROM dataset"
COMPONENT = "app.kubernetes.io/component=service"
KEY = f"sk_{32 * 'a'}"
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
INSTALL_SECONDS = 480  # eight processes start on cores that tests share
REFUSED_FOR_NOW = 429  # an eviction that a budget does not allow


@dataclass
class Release:
    """An installed chart, with two namespaces of its own."""

    cluster: KubernetesCluster
    data: Path
    service: Service = field(init=False)

    @property
    def namespace(self) -> str:
        return f"{self.cluster.namespace}-service"

    @property
    def drivers(self) -> str:
        return f"{self.cluster.namespace}-drivers"

    def run(self, *command: str) -> None:
        subprocess.run([*command, "--kubeconfig", self.cluster.config, "--namespace", self.namespace], check=True)

    def install(self, bucket: Bucket, database: str) -> None:
        core = self.cluster.core
        for name in (self.namespace, self.drivers):
            core.create_namespace({"metadata": {"name": name, "labels": RESTRICTED}})
        secret = {
            "SPINDLE_DATABASE_URL": database,
            "SPINDLE_SECRET_KEY": 32 * "k",
            "SPINDLE_ADMIN_KEY": KEY,
            "SPINDLE_S3_ACCESS_KEY_ID": bucket.access_key,
            "SPINDLE_S3_SECRET_ACCESS_KEY": bucket.secret_key,
        }
        core.create_namespaced_secret(self.namespace, {"metadata": {"name": "spindle"}, "stringData": secret})
        values = {
            "image": self.cluster.image,
            "storage": {"address": bucket.address, "endpoint": self.cluster.expose(bucket.endpoint)},
            "settings": {"SPINDLE_FETCH_ALLOW_NETWORKS": f"{self.cluster.address}/32"},
            "resources": {"requests": {"cpu": "100m", "memory": "1Gi"}, "limits": {"memory": "4Gi"}},
            "drivers": {"namespace": self.drivers, "cpu": "100m", "memory": "1500Mi"},
            "history": {"server": True},
        }
        file = self.data / "values.json"
        file.write_text(json.dumps(values))
        chart = str(DEPLOY / "helm/spindle")
        waits = ("--wait", "--timeout", f"{INSTALL_SECONDS}s")
        self.run("helm", "install", "spindle", chart, "--values", str(file), *waits)

    def restart(self) -> None:
        self.run("kubectl", "rollout", "restart", "deployment/spindle")
        self.wait_until_ready()

    def kill(self) -> None:
        """End the pod as the loss of its node would; the Deployment starts another one."""
        self.run("kubectl", "delete", "pod", "-l", COMPONENT, "--force", "--grace-period=0")
        self.wait_until_ready()

    def wait_until_ready(self) -> None:
        self.run("kubectl", "rollout", "status", "deployment/spindle", f"--timeout={INSTALL_SECONDS}s")

    @contextmanager
    def connect(self) -> Generator[Service]:
        """Yield a client of the service in its present pod."""
        command = ["kubectl", "port-forward", "service/spindle", ":8080"]
        command += ["--kubeconfig", self.cluster.config, "--namespace", self.namespace]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            found = re.search(r"127\.0\.0\.1:(\d+)", process.stdout.readline())
            try:
                yield Service(self.data, port=int(found[1]))
            finally:
                process.terminate()

    def list_drivers(self, is_idle: bool = False) -> list[str]:
        """Return the names of the pods with an execution, or of those that wait for one."""
        pods = self.cluster.core.list_namespaced_pod(self.drivers).items
        return [pod.metadata.name for pod in pods if (EXIT_CODE in pod.metadata.labels) == is_idle]

    def check_secrets(self, bucket: Bucket) -> None:
        """Assert that nobody without the right to read Secrets sees one, while executions run."""
        core, canaries = self.cluster.core, (KEY, 32 * "k", postgres.PASSWORD, bucket.secret_key, "whsec_")
        for namespace in (self.namespace, self.drivers):
            seen = dict(self.cluster.dump(namespace))
            for pod in find_pods(self.cluster, namespace):
                seen[pod.metadata.name] = core.read_namespaced_pod_log(
                    pod.metadata.name, namespace, container=pod.spec.containers[0].name
                )
            assert not [name for name, text in seen.items() if any(canary in text for canary in canaries)]

    def print_state(self) -> None:
        with suppress(subprocess.CalledProcessError):
            self.run("kubectl", "get", "pods,events")
            self.run("kubectl", "logs", "deployment/spindle", "--all-containers", "--tail=100")


@pytest.fixture(scope="module")
def release(cluster: KubernetesCluster, bucket: Bucket, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Release]:
    for tool in ("helm", "kubectl"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not on the PATH")
    data = tmp_path_factory.mktemp("chart")
    (data / "admin-key").write_text(KEY)
    release = Release(cluster, data)
    with postgres.server() as server, postgres.new_database(server) as database:
        url = make_url(database)
        host, port = cluster.expose(f"http://127.0.0.1:{url.port}").removeprefix("http://").split(":")
        try:
            release.install(bucket, url.set(host=host, port=int(port)).render_as_string(hide_password=False))
            yield release
        except subprocess.CalledProcessError:
            release.print_state()
            raise
        finally:
            for name in (release.namespace, release.drivers):
                cluster.core.delete_namespace(name)
            wait_until(lambda: not find_pods(cluster, release.namespace), PATIENCE_SECONDS, every=1)


def find_pods(cluster: KubernetesCluster, namespace: str) -> list[Any]:
    return cluster.core.list_namespaced_pod(namespace).items


def test_rows_of_an_installed_chart_are_queried_from_outside(
    release: Release, cluster: KubernetesCluster, web: Site
) -> None:
    with release.connect() as service:
        web.serve({"/": "<h1>Rows</h1>"})
        job = service.make_job(CRAWL.format(url=cluster.expose(web.url)))
        service.complete(job)
        dataset = service.get(job.path)["outputDatasetId"]
        rows = service.post("/datasets/query", {"sql": SELECT, "datasetId": dataset})["results"]
        assert rows == [{"title": "Rows"}]
        wait_until(lambda: release.list_drivers(is_idle=True), PATIENCE_SECONDS, every=1)
        (driver,) = release.list_drivers(is_idle=True)
        service.complete(job)
        wait_until(lambda: release.list_drivers(is_idle=True) == [driver], PATIENCE_SECONDS, every=1)
        assert not release.list_drivers()


def test_executions_go_on_while_the_service_is_replaced(
    release: Release, cluster: KubernetesCluster, bucket: Bucket, site: GatedSite
) -> None:
    crawl = CRAWL.format(url=cluster.expose(site.url.rstrip("/")))
    with release.connect() as service:
        job, other = service.make_job(crawl), service.make_job(crawl)
        execution, unwanted = service.execute(job), service.execute(other)
        assert {service.wait(*each, "RUNNING")["status"] for each in ((job, execution), (other, unwanted))} == {
            "RUNNING"
        }
        site.wait_for_visitor()
    drivers = sorted(release.list_drivers())
    assert len(drivers) == 2
    release.check_secrets(bucket)
    eviction = kubernetes.client.V1Eviction(metadata={"name": drivers[0], "namespace": release.drivers})
    with pytest.raises(ApiException) as refused:
        cluster.core.create_namespaced_pod_eviction(drivers[0], release.drivers, eviction)
    assert refused.value.status == REFUSED_FOR_NOW
    release.restart()
    logs = f"{job.path}/executions/{execution}/logs"
    with release.connect() as service:
        assert service.status(job, execution)["status"] == "RUNNING"
        wait_until(lambda: "planned" in "".join(service.get(logs)["logs"]), PATIENCE_SECONDS, every=1)
        assert sorted(release.list_drivers()) == drivers
        service.post(f"{other.path}/executions/{unwanted}/cancel", {})
        wait_until(lambda: len(release.list_drivers()) == 1, PATIENCE_SECONDS)
        site.open()
        ended = service.wait(job, execution)
        assert ended["status"] == "COMPLETED", ended
        dataset = service.get(job.path)["outputDatasetId"]
        assert service.post("/datasets/query", {"sql": SELECT, "datasetId": dataset})["results"] == [{"title": "Gate"}]
        wait_until(lambda: not release.list_drivers(), PATIENCE_SECONDS, every=1)
        assert "completed" in "".join(service.get(logs)["logs"])


def test_an_execution_goes_on_after_a_crash_of_the_service(
    release: Release, cluster: KubernetesCluster, site: GatedSite
) -> None:
    with release.connect() as service:
        job = service.make_job(CRAWL.format(url=cluster.expose(site.url.rstrip("/"))))
        execution = service.execute(job)
        site.wait_for_visitor()
        assert service.wait(job, execution, "RUNNING")["status"] == "RUNNING"
    drivers = release.list_drivers()
    release.kill()
    with release.connect() as service:
        assert (service.status(job, execution)["status"], release.list_drivers()) == ("RUNNING", drivers)
        site.open()
        ended = service.wait(job, execution)
        assert ended["status"] == "COMPLETED", ended
        wait_until(lambda: not release.list_drivers(), PATIENCE_SECONDS, every=1)
        assert "completed" in "".join(service.get(f"{job.path}/executions/{execution}/logs")["logs"])


def test_the_page_of_a_finished_spark_execution_stays(release: Release, cluster: KubernetesCluster, web: Site) -> None:
    with release.connect() as service, service.client() as client:
        web.serve({"/": "<h1>Spark</h1>"})
        job = service.make_job(CRAWL.format(url=cluster.expose(web.url)))
        assert client.put(job.path, json={"engine": "spark"}).is_success
        execution = service.execute(job)
        ended = service.wait(job, execution)
        assert ended["status"] == "COMPLETED", ended
        page = urlsplit(ended["sparkUiUrl"]).path
        wait_until(lambda: client.get(f"http://127.0.0.1:{service.port}{page}").is_success, PATIENCE_SECONDS, every=1)
        jobs = client.get(f"http://127.0.0.1:{service.port}{page}api/v1/applications/{execution}/1/jobs").json()
        assert {each["status"] for each in jobs} == {"SUCCEEDED"}
