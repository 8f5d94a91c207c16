"""Cron jobs and facts about Spark over REST."""

from __future__ import annotations

import json
import os
from contextlib import closing
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from core.definitions.identity.api_keys import Identity
from core.errors import Unavailable
from core.infra.cluster import PodList, Refused
from core.infra.database import open_database
from core.infra.dispatcher import Dispatcher
from core.infra.pidfile import hold_pidfile
from core.infra.run_socket import get_run_socket
from core.infra.settings import Settings
from core.lifecycle.firing.cron_job_calls import CallQueue
from core.lifecycle.firing.cron_jobs import fire
from core.lifecycle.spark import probe as spark_probe
from core.lifecycle.spark import service as spark_service
from core.lifecycle.spark.probe import SparkProbe
from core.lifecycle.spark.service import SparkService
from core.tables import CronJob
from driver.unix_socket import bind
from tests.support.api import Api, Job, Server, answered, read_code
from tests.support.clock import Clock
from tests.support.service import PATIENCE_SECONDS, wait_until
from tests.support.webhook_receiver import Receiver

CRON_JOBS = "/api/svc/cloud/scheduler/cronjobs"
MINUTE = timedelta(minutes=1)


def create(api: Api, name: str, **fields: Any) -> Any:
    body = {"name": name, "schedule": "* * * * *", "webhookUrl": "https://example.com/hook"} | fields
    return api.post(CRON_JOBS, body)


def fire_and_deliver(api: Api, name: str) -> None:
    """Fire the tick that is next, as Dagster's schedule does, and make its call, as the process `webhooks` does."""
    database = open_database(api.settings)
    with database.read() as session:
        cron_job = session.query(CronJob).filter_by(organization_id=api.organization_id, name=name).one()
    tick_at = cron_job.created_at.replace(second=0, microsecond=0) + MINUTE
    assert fire(database, cron_job.id, tick_at, tick_at - MINUTE).call_id is not None
    dispatcher = Dispatcher(api.settings, database, [CallQueue()])
    with database.write() as session:
        session.execute(CallQueue.messages.__table__.update().values(available_at=cron_job.created_at))
    dispatcher.deliver_due()
    dispatcher.finish()
    database.close()


def test_a_cron_job_is_created_listed_read_and_deleted(acme: Api, rival: Api) -> None:
    fields = {
        "clusterProvider": "gke",
        "clusterConfigId": "c-1",
        "image": "registry/image:1",
        "jobId": "any",
        "projectId": "other",
    }
    response = acme.call("POST", CRON_JOBS, json={"name": "a", "cronSchedule": "0 30 6 ? * MON-FRI",
                                                   "webhookUrl": "https://example.com/x", **fields})  # fmt: skip
    assert response.status_code == 201
    created = response.json()
    assert fields.items() <= created.items()
    assert (created["namespace"], created["timezone"], created["schedule"]) == ("default", "UTC", "0 30 6 ? * MON-FRI")
    assert datetime.fromisoformat(created["nextTickAt"]) > datetime.fromisoformat(created["createdAt"])
    night = create(acme, "a", namespace="night", timezone="Europe/Berlin")
    assert acme.get(CRON_JOBS) == acme.get(CRON_JOBS, namespace="default") == [created]
    assert acme.get(CRON_JOBS, namespace="night") == [night]
    assert acme.get(f"{CRON_JOBS}/a") == {**created, "results": []}
    for namespace in ("default", "night"):
        assert rival.get(CRON_JOBS, namespace=namespace) == []
        for method in ("GET", "DELETE"):
            assert rival.call(method, f"{CRON_JOBS}/a", params={"namespace": namespace}).status_code == 404
    assert answered(acme.call("DELETE", f"{CRON_JOBS}/a")) == {}
    assert acme.call("GET", f"{CRON_JOBS}/a").status_code == acme.call("DELETE", f"{CRON_JOBS}/a").status_code == 404
    assert acme.get(f"{CRON_JOBS}/a", namespace="night")["name"] == "a"
    answered(acme.call("DELETE", f"{CRON_JOBS}/a", params={"namespace": "night"}))


def test_a_cron_job_executes_a_job_of_this_service(server: Server, job: Job, receiver: Receiver) -> None:
    """The key comes from a credential, and stays out of the answer."""
    api = job.api
    key = {"name": "own", "provider": "spindle", "apiKey": api.key}
    api.post("/cloud-credentials", key)
    url = f"{server.client.base_url}".rstrip("/") + f"/api/svc/api{job.path}/execute"
    ids = {"jobId": job.id, "projectId": job.project_id}
    create(api, "executes", webhookUrl=url, secretName="own", **ids)
    fire_and_deliver(api, "executes")
    read = api.call("GET", f"{CRON_JOBS}/executes")
    assert api.key not in read.text
    (result,) = read.json()["results"]
    assert (result["state"], result["nextTryAt"], result["tries"][0]["status"]) == ("DELIVERED", None, 200)
    assert len(api.get(f"{job.path}/executions")) == 1


@pytest.mark.parametrize("spelling", ["apiKey", "API_KEY", None])
def test_the_name_of_a_secret_reads_back_as_it_was_sent(acme: Api, spelling: str | None) -> None:
    acme.post("/cloud-credentials", {"name": f"read back {spelling}", "provider": "OTHER", "apiKey": "k"})
    sent = {"secretName": f"read back {spelling}"} | ({"secretKey": spelling} if spelling else {})
    create(acme, f"reads back {spelling}", **sent)
    assert acme.get(f"{CRON_JOBS}/reads back {spelling}")["secretKey"] == (spelling or "apiKey")
    answered(acme.call("DELETE", f"{CRON_JOBS}/reads back {spelling}"))


def test_a_failed_call_shows_its_results_and_when_it_is_repeated(acme: Api, receiver: Receiver) -> None:
    create(acme, "fails", webhookUrl=f"{receiver.url}/500/x")
    fire_and_deliver(acme, "fails")
    (result,) = acme.get(f"{CRON_JOBS}/fails")["results"]
    assert (result["state"], result["tries"][0]["error"]) == ("PENDING", "It answered 500.")
    assert result["nextTryAt"] > result["tickAt"][:10]
    answered(acme.call("DELETE", f"{CRON_JOBS}/fails"))


@pytest.mark.parametrize("name", ["a/b", 'quo"ted', "emoji 🦔", "\u202eright to left", "100%", "..%2F.."])
def test_a_name_of_any_characters_is_found_by_its_path(acme: Api, name: str) -> None:
    create(acme, name)
    path = f"{CRON_JOBS}/{quote(name, safe='')}"
    assert acme.get(path)["name"] == name
    answered(acme.call("DELETE", path))


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"name": None}, "name"),
        ({"name": " "}, "name"),
        ({"name": "x" * 256}, "name"),
        ({"namespace": "x" * 256}, "namespace"),
        ({"schedule": ""}, "schedule"),
        ({"schedule": "daily"}, "schedule"),
        ({"schedule": "* * * * * *"}, "schedule"),  # each second
        ({"schedule": "0 0 30 2 *"}, "schedule"),
        ({"schedule": 5}, "schedule"),
        ({"timezone": "Mars/Olympus"}, "timezone"),
        ({"timezone": "../../etc/passwd"}, "timezone"),
        ({"webhookUrl": None}, "webhookUrl"),
        ({"webhookUrl": "ftp://example.com/"}, "webhookUrl"),
        ({"webhookUrl": "http://10.0.0.1/"}, "webhookUrl"),
        ({"webhookUrl": "http://169.254.169.254/latest"}, "webhookUrl"),
        ({"webhookUrl": "https://user:password@example.com/"}, "webhookUrl"),
        ({"secretName": "unknown"}, "secretName"),
        ({"secretKey": "apiKey"}, "secretName"),
        ({"secretName": "unknown", "secretKey": "password"}, "secretKey"),
        ({"image": "NUL \u0000"}, "image"),
    ],
)
def test_what_could_not_be_fired_is_refused_with_its_field(acme: Api, fields: dict[str, Any], path: str) -> None:
    body = {"name": "bad", "schedule": "* * * * *", "webhookUrl": "https://example.com/"} | fields
    response = acme.call("POST", CRON_JOBS, json=body)
    assert (response.status_code, response.json()["details"][0]["path"]) == (400, path)
    assert acme.call("GET", f"{CRON_JOBS}/bad").status_code == 404


def test_pages_of_a_namespace(acme: Api) -> None:
    created = [create(acme, f"page {number}", namespace="pages") for number in range(3)]
    first = acme.call("GET", CRON_JOBS, params={"namespace": "pages", "limit": 2})
    following = first.headers["Link"].split(">")[0].removeprefix("<")
    assert [*first.json(), *acme.call("GET", following).json()] == created


def test_a_cron_job_is_changed_paused_and_resumed(acme: Api, rival: Api) -> None:
    made = acme.post(
        CRON_JOBS, {"name": "changes", "schedule": "@daily", "webhookUrl": "https://a.b/", "jobId": "books"}
    )
    path = f"{CRON_JOBS}/changes"
    tag = acme.call("GET", path).headers["ETag"]
    paused = acme.call("PUT", path, json={"enabled": False}, headers={"If-Match": tag})
    assert paused.json() == {**made, "enabled": False, "nextTickAt": None}
    assert acme.call("PUT", path, json={"schedule": "@hourly"}, headers={"If-Match": tag}).status_code == 412
    changes = {"cronSchedule": "0 4 * * *", "timezone": "Europe/Berlin", "webhookUrl": "https://c.d/", "jobId": ""}
    changed = acme.call("PUT", path, json=changes).json()
    kept = {"schedule": "0 4 * * *", "timezone": "Europe/Berlin", "webhookUrl": "https://c.d/", "jobId": None}
    assert changed == {**made, **kept, "enabled": False, "nextTickAt": None}
    at = datetime(2030, 1, 1, 3, tzinfo=UTC)  # 4 in Berlin
    with closing(open_database(acme.settings)) as database:
        with database.read() as session:
            row = session.query(CronJob).filter_by(name="changes").one()
        assert fire(database, row.id, at, at).message == "The cron job is paused."
    assert acme.call("PUT", path, json={"enabled": True}).json()["nextTickAt"].endswith(("T02:00:00Z", "T03:00:00Z"))
    for wrong, field in (
        ({"schedule": "at five"}, "schedule"),
        ({"timezone": "Mars/Base"}, "timezone"),
        ({"webhookUrl": "ftp://a.b/"}, "webhookUrl"),
        ({"secretName": "nobody's"}, "secretName"),
        ({"secretKey": "apiKey"}, "secretName"),
    ):
        refused = acme.call("PUT", path, json=wrong)
        assert (refused.status_code, refused.json()["details"][0]["path"]) == (400, field), wrong
    assert acme.get(path)["schedule"] == "0 4 * * *"
    assert rival.call("PUT", path, json={"enabled": False}).status_code == 404
    answered(acme.call("DELETE", path))


def test_scopes(server: Server, acme: Api) -> None:
    reader = server.caller(acme.organization_id, "etl:read")
    body = {"name": "no", "schedule": "@daily", "webhookUrl": "https://example.com/"}
    assert reader.call("POST", CRON_JOBS, json=body).status_code == 403
    assert reader.call("PUT", f"{CRON_JOBS}/no", json={"enabled": False}).status_code == 403
    assert reader.call("DELETE", f"{CRON_JOBS}/no").status_code == 403
    assert reader.call("GET", CRON_JOBS).status_code == 200


SPARK = "/api/svc/cloud/spark"


def test_spark_shows_true_facts(acme: Api, rival: Api) -> None:
    drivers = acme.settings.data / "drivers"
    drivers.mkdir(exist_ok=True)
    pidfile = drivers / f"{acme.organization_id}.execution.1"
    (drivers / f"{acme.organization_id}.ended.1").write_text("1")
    with hold_pidfile(pidfile) as descriptor:
        os.write(descriptor, str(os.getpid()).encode())
        info = acme.get(f"{SPARK}/info")
        assert (info["runningDrivers"], rival.get(f"{SPARK}/info")["runningDrivers"]) == (1, 0)
    assert info["version"] == version("pyspark")
    assert info["cores"] == len(os.sched_getaffinity(0))
    assert (info["master"], info["driverMemory"], bool(info["javaVersion"])) == ("local[*]", "2g", True)
    capabilities = acme.get(f"{SPARK}/capabilities")
    assert capabilities == {**info, "runningDrivers": 0} | {each: capabilities[each] for each in ("formats", "stages")}
    assert {"csv", "json", "parquet"} <= set(capabilities["formats"]["read"])
    assert {"csv", "json", "parquet"} <= set(capabilities["formats"]["written"])
    assert {"csv", "parquet", "delta", "iceberg"} <= set(capabilities["formats"]["output"])
    assert {"extract", "load_csv"} <= set(capabilities["stages"])


@pytest.mark.long
def test_facts_about_a_cluster_come_from_its_pods(acme: Api, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    own = {"metadata": {"labels": {"spindle/role": "driver"}}, "status": {"phase": "Running"}}
    executor = {"metadata": {"labels": {"spindle/role": "executor"}}, "status": {"phase": "Running"}}
    waiting = {**executor, "status": {"phase": "Pending"}}
    cluster = FakeCluster([own, executor, executor, waiting])
    monkeypatch.setattr("core.lifecycle.spark.cluster.Cluster", lambda _settings: cluster)
    settings = Settings(
        data=tmp_path,
        compute="kubernetes",
        storage="s3://bucket/prefix",
        public_url="http://spindle:8080",
        kubernetes_image="registry/spindle-spark:1",
        spark_master="k8s://https://kubernetes.default.svc:443",
    )
    with closing(open_database(acme.settings)) as database:
        service = SparkService(settings, database)
        facts = service.describe(Identity(acme.organization_id, "key", frozenset()))
        assert cluster.selectors == [f"app.kubernetes.io/instance=spindle,spindle/organization={acme.organization_id}"]
        assert (facts.running_drivers, facts.running_executors, facts.executors) == (1, 2, 2)
        assert (facts.compute, facts.image, facts.java_version) == ("kubernetes", "registry/spindle-spark:1", None)
        with pytest.raises(Unavailable, match="process that starts drivers"):
            service.check_health()
        (tmp_path / "dagster").mkdir()
        run_server = get_run_socket(tmp_path / "dagster")
        with bind(run_server) as listening:
            listening.listen()
            assert service.check_health() == 0
            assert cluster.checked[0]["spec"]["serviceAccountName"] == "default"
            cluster.refusal = "exceeded quota: none"
            with pytest.raises(Unavailable, match="exceeded quota: none"):
                service.check_health()


class FakeCluster:
    """A cluster with these pods, which accepts another one unless it has a reason."""

    def __init__(self, pods: list[dict[str, Any]]) -> None:
        self._pods = pods
        self.selectors: list[str] = []
        self.checked: list[dict[str, Any]] = []
        self.refusal: str | None = None

    def list_pods(self, selector: str) -> PodList:
        self.selectors.append(selector)
        return PodList(self._pods, "1")

    def check_pod(self, manifest: dict[str, Any]) -> None:
        self.checked.append(manifest)
        if self.refusal:
            raise Refused(self.refusal)


def test_spark_is_up_when_a_session_has_run(acme: Api, job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    for module in (spark_probe, spark_service):
        monkeypatch.setattr(module, "time", clock)
    probe, home = acme.settings.data / "spark-probe.json", acme.settings.data / "dagster"
    without = acme.call("GET", f"{SPARK}/health")
    assert read_code(without) == (503, "unavailable")
    assert not probe.exists()
    home.mkdir(exist_ok=True)
    with bind(get_run_socket(home)) as server:  # the launcher's, of which only a connection is asked
        server.listen(4096)  # of connections that nobody accepts
        wait_until(lambda: acme.call("GET", f"{SPARK}/health").status_code == 200, PATIENCE_SECONDS)
        tested = probe.read_text()
        probe.write_text(json.dumps({"at": clock.now - 9, "works": True}))
        assert acme.get(f"{SPARK}/health") == {"status": "UP", "ageSeconds": 9}
        clock.now += 1
        probe.write_text(json.dumps({"at": clock.now - 3600, "works": True}))
        assert acme.get(f"{SPARK}/health")["ageSeconds"] == 3600
        # another probe has begun in the background
        wait_until(lambda: acme.get(f"{SPARK}/health")["ageSeconds"] == 0, PATIENCE_SECONDS)
        assert probe.read_text() != tested
        probe.write_text(json.dumps({"at": clock.now - 2, "works": False}))
        assert "2 s ago" in acme.call("GET", f"{SPARK}/health").json()["error"]
        execution = job.execute()
        job.report(execution, "RUNNING", sparkUiUrl="http://127.0.0.1:4040")
        assert acme.get(f"{SPARK}/health")["status"] == "UP", "an execution has Spark"
        job.report(execution, "FAILED", errorMessage="It broke.")
    get_run_socket(home).unlink()


@pytest.mark.long
def test_a_session_that_does_not_start_is_no_health(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(data=tmp_path, spark_driver_memory="more than there is")
    probe = SparkProbe(settings)
    probe.begin()
    wait_until(lambda: probe.read_result() is not None, PATIENCE_SECONDS)
    result = probe.read_result()
    assert not result.works
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with closing(open_database(settings)) as database, pytest.raises(Unavailable, match="no Java"):
        SparkService(settings, database).check_health()
