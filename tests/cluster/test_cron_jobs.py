"""Cron jobs as CronJobs of a real cluster."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import httpx
import pytest
from sqlalchemy import delete

from core.definitions.cron_jobs import kubernetes
from core.infra.settings import Settings
from core.tables import CronJob
from tests.support.cluster import KubernetesCluster
from tests.support.s3 import Bucket
from tests.support.service import PATIENCE_SECONDS, Service, free_port, wait_until
from tests.support.site import Site

pytestmark = pytest.mark.long

CRAWL = "fetch: {{url: '{url}/'}}\npipeline: [{{stage: extract, args: [{{selector: h1, method: text, as: title}}]}}]"
TICK_SECONDS = 180  # a CronJob fires at the next whole minute, and its pod has to start


@pytest.fixture(scope="module")
def service(cluster: KubernetesCluster, bucket: Bucket, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    cluster.allow_cron_jobs()
    port = free_port()
    environment = {
        **cluster.build_environment(bucket, port),
        "SPINDLE_KUBERNETES_CRON_NAMESPACES": cluster.namespace,
        "SPINDLE_KUBERNETES_CRON_SECRETS": "hooks",
    }
    service = Service(tmp_path_factory.mktemp("cron") / "data", environment, port=port).start()
    yield service
    service.stop()


def test_a_cron_job_of_the_cluster_executes_a_job(service: Service, cluster: KubernetesCluster, web: Site) -> None:
    secret = {"metadata": {"name": "hooks"}, "stringData": {"key": service.key}}
    cluster.core.create_namespaced_secret(cluster.namespace, secret)
    api = cluster.expose(f"http://127.0.0.1:{service.port}")
    cron_jobs = get_address(service)
    with service.client() as client:
        web.serve({"/": "<h1>Tick</h1>"})
        job = service.make_job(CRAWL.format(url=cluster.expose(web.url)))
        body = {
            "name": "minutely",
            "namespace": cluster.namespace,
            "schedule": "* * * * *",
            "webhookUrl": f"{api}/api/svc/api{job.path}/execute",
            "secretName": "hooks",
            "secretKey": "key",
        }
        refused = client.post(cron_jobs, json=body | {"secretName": "database"})
        assert (refused.status_code, refused.json()["details"][0]["code"]) == (400, "not-allowed")
        created = client.post(cron_jobs, json=body)
        assert created.status_code == 201, created.text
        wait_until(lambda: service.get(f"{job.path}/executions"), TICK_SECONDS, every=1)
        execution = service.get(f"{job.path}/executions")[0]["executionId"]
        own = {"namespace": cluster.namespace}
        wait_until(lambda: read_states(client, f"{cron_jobs}/minutely", own) & {"DELIVERED"}, PATIENCE_SECONDS, every=1)
        assert service.wait(job, execution)["status"] == "COMPLETED"
        for kind, text in cluster.dump().items():
            assert service.key not in text, kind
        paused = client.put(f"{cron_jobs}/minutely", params=own, json={"enabled": False, "schedule": "@hourly"})
        assert (paused.status_code, paused.json()["nextTickAt"]) == (200, None), paused.text
        assert '"suspend": true' in cluster.dump()["cronjobs"]
        assert client.delete(f"{cron_jobs}/minutely", params=own).status_code == 200
        assert client.get(f"{cron_jobs}/minutely", params=own).status_code == 404
        wait_until(lambda: not cluster.list_jobs(), PATIENCE_SECONDS)


def read_states(client: httpx.Client, url: str, namespace: dict[str, str]) -> set[str]:
    return {each["state"] for each in client.get(url, params=namespace).json()["results"]}


def test_a_cron_job_whose_row_is_gone_is_deleted(
    service: Service, cluster: KubernetesCluster, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = {"schedule": "0 0 1 1 *", "webhookUrl": "https://example.com/", "namespace": cluster.namespace}
    with service.client() as client:
        for name in ("kept", "lost"):
            assert client.post(get_address(service), json=body | {"name": name}).status_code == 201
    with service.database() as database, database.write() as session:
        session.execute(delete(CronJob).where(CronJob.name == "lost"))
    monkeypatch.setattr(kubernetes, "ORPHAN_AGE", timedelta())
    settings = Settings(**cluster.build_settings(bucket), kubernetes_cron_namespaces=(cluster.namespace,))
    with service.database() as database:
        kubernetes.delete_orphans(settings, database)
    dumped = cluster.dump()["cronjobs"]
    assert ("kept-" in dumped, "lost-" in dumped) == (True, False)


def get_address(service: Service) -> str:
    return f"http://127.0.0.1:{service.port}/api/svc/cloud/scheduler/cronjobs"
