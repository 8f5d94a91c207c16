"""The rendered manifests, beside the pods that Spindle makes and the settings that it reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from core.definitions.cron_jobs.kubernetes import build_cron_job
from core.infra.pods import SPARK_PAGE_PORT
from core.infra.settings import FIELDS, Settings
from core.tables import CronJob
from driver.host_folder import PORT as CHANNEL_PORT
from orchestration.compute.kubernetes.pods import build_pod
from orchestration.compute.protocol import DriverHandle

MANIFESTS = Path(__file__).parents[2] / "deploy/manifests"
SECRETS = {
    "SPINDLE_DATABASE_URL": "postgresql://spindle:password@database.example.org/spindle",
    "SPINDLE_SECRET_KEY": 32 * "k",
    "SPINDLE_ADMIN_KEY": 32 * "a",
}
Manifest = dict[str, Any]


@pytest.fixture(params=["spindle", "spindle-full"])
def manifests(request: pytest.FixtureRequest) -> list[Manifest]:
    return [*yaml.safe_load_all((MANIFESTS / f"{request.param}.yaml").read_text())]


@pytest.fixture
def settings(manifests: list[Manifest], monkeypatch: pytest.MonkeyPatch) -> Settings:
    """The settings as the service reads them in its pod."""
    for name, value in read_environment(manifests).items():
        monkeypatch.setenv(name, value)
    return Settings()


def find(manifests: list[Manifest], kind: str, name: str) -> Manifest:
    (found,) = (each for each in manifests if (each["kind"], each["metadata"]["name"]) == (kind, name))
    return found


def read_environment(manifests: list[Manifest]) -> dict[str, str]:
    (container,) = find(manifests, "Deployment", "spindle")["spec"]["template"]["spec"]["containers"]
    variables = {each["name"]: each.get("value") or SECRETS[each["name"]] for each in container["env"]}
    return {name: value for name, value in variables.items() if name.startswith("SPINDLE_")}


def list_pods(manifests: list[Manifest]) -> Iterator[Manifest]:
    yield from (each["spec"]["template"] for each in manifests if "template" in each.get("spec", {}))


def matches(selector: Manifest, labels: Mapping[str, str]) -> bool:
    if {each["operator"] for each in selector.get("matchExpressions", ())} - {"Exists"}:
        raise ValueError("an operator that this test does not know")
    keys = {each["key"] for each in selector.get("matchExpressions", ())}
    return selector["matchLabels"].items() <= labels.items() and keys <= labels.keys()


def test_containers_have_no_rights_on_their_node(manifests: list[Manifest]) -> None:
    for pod in list_pods(manifests):
        spec = pod["spec"]
        assert spec["securityContext"]["runAsNonRoot"]
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys()
        for container in (*spec.get("initContainers", ()), *spec["containers"]):
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert container["resources"]["limits"]["memory"]
        assert [*spec["volumes"][0]] == ["name", "emptyDir"]


def test_instances_run_with_probes_and_are_replaced_one_at_a_time(manifests: list[Manifest]) -> None:
    spec = find(manifests, "Deployment", "spindle")["spec"]
    assert spec["replicas"] >= 1
    assert spec["strategy"] == {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    budget = find(manifests, "PodDisruptionBudget", "spindle")["spec"]
    spread = spec["template"]["spec"]["topologySpreadConstraints"][0]
    for each in (budget["selector"], spread["labelSelector"]):
        assert matches(each, spec["template"]["metadata"]["labels"])
    assert budget["maxUnavailable"] == 1
    (container,) = spec["template"]["spec"]["containers"]
    probes = {name: container[name]["httpGet"]["path"] for name in container if name.endswith("Probe")}
    assert probes == {"startupProbe": "/readyz", "readinessProbe": "/readyz", "livenessProbe": "/livez"}
    assert spec["template"]["spec"]["terminationGracePeriodSeconds"] > 5 + 2 * 20  # the pause, and both parts of a stop


def test_settings_are_those_of_the_service(manifests: list[Manifest], settings: Settings) -> None:
    known = {f"SPINDLE_{name.upper()}" for name in FIELDS}
    assert not read_environment(manifests).keys() - known
    assert (settings.drivers.compute, settings.api.host, settings.database.migrate) == ("kubernetes", "0.0.0.0", True)
    service = find(manifests, "Service", "spindle")
    host = f"{service['metadata']['name']}.{service['metadata']['namespace']}.svc"
    assert settings.api.public_url == f"http://{host}:{service['spec']['ports'][0]['port']}"


def test_policies_and_budgets_select_the_pods_that_spindle_makes(manifests: list[Manifest], settings: Settings) -> None:
    driver = build_pod(settings, DriverHandle("organization", "execution", 1), (), ())
    labels, account = driver["metadata"]["labels"], driver["spec"]["serviceAccountName"]
    namespace = settings.kubernetes.namespace
    for kind, selector in (("NetworkPolicy", "podSelector"), ("PodDisruptionBudget", "selector")):
        found = find(manifests, kind, "spindle-drivers")
        assert found["metadata"]["namespace"] == namespace
        assert matches(found["spec"][selector], labels)
    assert find(manifests, "ServiceAccount", account)["metadata"]["namespace"] == namespace
    service = find(manifests, "Service", "spindle")["spec"]["selector"]
    pod = find(manifests, "Deployment", "spindle")["spec"]["template"]
    assert matches({"matchLabels": service}, pod["metadata"]["labels"])
    assert not matches({"matchLabels": service}, labels)
    peers, readers = find(manifests, "NetworkPolicy", "spindle-drivers")["spec"]["ingress"]
    assert matches(peers["from"][0]["podSelector"], labels)
    assert matches(readers["from"][0]["podSelector"], pod["metadata"]["labels"])
    assert not matches(readers["from"][0]["podSelector"], labels)
    assert [each["port"] for each in readers["ports"]] == [SPARK_PAGE_PORT, CHANNEL_PORT]
    for name in settings.kubernetes.cron_namespaces:
        row = CronJob(
            id="id", name="tick", organization_id="organization", namespace=name, schedule="@daily", url="https://a.org"
        )
        template = build_cron_job(settings, row)["spec"]["jobTemplate"]["spec"]["template"]
        policy = find(manifests, "NetworkPolicy", "spindle-cron")
        assert policy["metadata"]["namespace"] == name
        assert matches(policy["spec"]["podSelector"], template["metadata"]["labels"])


def test_only_drivers_with_executors_may_create_pods(manifests: list[Manifest], settings: Settings) -> None:
    roles = {each["metadata"]["name"] for each in manifests if each["kind"] == "Role"}
    has_executors = settings.spark.master.startswith("k8s://")
    assert ("spindle-driver" in roles) == has_executors
    assert ("spindle-cron" in roles) == bool(settings.kubernetes.cron_namespaces)
    assert not {each["kind"] for each in manifests} & {"ClusterRole", "ClusterRoleBinding", "Secret"}
    for role in (each for each in manifests if each["kind"] == "Role"):
        assert role["metadata"]["namespace"] != "spindle"  # nothing may be done where the service's Secret is
        assert not [rule for rule in role["rules"] if "*" in (*rule["verbs"], *rule["resources"])]


def test_only_the_service_reaches_a_history_server_with_the_keys_of_the_bucket(manifests: list[Manifest]) -> None:
    service, *history = list_pods(manifests)
    if not history:
        assert not [each for each in manifests if each["metadata"]["name"] == "spindle-history"]
        return
    (labels,) = (pod["metadata"]["labels"] for pod in history)
    assert matches({"matchLabels": find(manifests, "Service", "spindle-history")["spec"]["selector"]}, labels)
    policy = find(manifests, "NetworkPolicy", "spindle-history")["spec"]
    assert matches(policy["podSelector"], labels)
    (rule,) = policy["ingress"]
    (source,) = rule["from"]
    assert matches(source["podSelector"], service["metadata"]["labels"])
    assert not matches(source["podSelector"], labels)
    for pod in history:
        (container,) = pod["spec"]["containers"]
        secrets = [each["name"] for each in container["env"] if "valueFrom" in each]
        assert all(name.startswith("SPINDLE_S3_") for name in secrets)
        assert "envFrom" not in container
        assert pod["spec"]["automountServiceAccountToken"] is False
