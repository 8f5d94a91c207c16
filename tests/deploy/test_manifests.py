"""The rendered manifests, beside the pods that Spindle makes and the settings that it reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ipaddress import ip_address, ip_network
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
POD_ADDRESS = "10.244.0.17"
METADATA = ("169.254.169.254", "169.254.170.2", "fd00:ec2::254")
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


def admits(
    policies: list[Manifest], source: Manifest, target: Manifest | str, port: int, *, pods_have_addresses: bool
) -> bool:
    """Return whether the policies admit a connection from a pod to another one, or to an address.

    In some clusters a block of addresses means pods too.
    """
    given = (policies, pods_have_addresses)
    return _admits(*given, "Egress", source, target, port) and (
        isinstance(target, str) or _admits(*given, "Ingress", target, source, port)
    )


def _admits(
    policies: list[Manifest], pods_have_addresses: bool, direction: str, pod: Manifest, peer: Manifest | str, port: int
) -> bool:
    side = {"Ingress": "from", "Egress": "to"}[direction]
    of_pod = [each for each in policies if direction in each["spec"]["policyTypes"] and _selects(each, pod)]
    rules = [(each, rule) for each in of_pod for rule in each["spec"].get(direction.lower(), ())]
    return not of_pod or any(
        any(_is_peer(policy, pods_have_addresses, entry, peer) for entry in rule.get(side, [{}]))
        and port in [each["port"] for each in rule.get("ports", [{"port": port}])]
        for policy, rule in rules
    )


def _selects(policy: Manifest, pod: Manifest) -> bool:
    same = policy["metadata"]["namespace"] == pod["metadata"]["namespace"]
    return same and matches(policy["spec"]["podSelector"], pod["metadata"]["labels"])


def _is_peer(policy: Manifest, pods_have_addresses: bool, entry: Manifest, peer: Manifest | str) -> bool:
    if block := entry.get("ipBlock"):
        if not isinstance(peer, str) and not pods_have_addresses:
            return False
        address = ip_address(peer if isinstance(peer, str) else POD_ADDRESS)
        return address in ip_network(block["cidr"]) and not any(
            address in ip_network(each) for each in block.get("except", ())
        )
    if isinstance(peer, str):
        return not entry
    namespace = {"kubernetes.io/metadata.name": peer["metadata"]["namespace"]}
    spaces = entry.get("namespaceSelector")
    in_space = (
        matches({"matchLabels": {}, **spaces}, namespace)
        if spaces is not None
        else not entry or policy["metadata"]["namespace"] == peer["metadata"]["namespace"]
    )
    return in_space and matches({"matchLabels": {}, **entry.get("podSelector", {})}, peer["metadata"]["labels"])


def test_policies_admit_what_each_process_calls_and_nothing_else(manifests: list[Manifest], settings: Settings) -> None:
    policies = [each for each in manifests if each["kind"] == "NetworkPolicy"]
    deployment = find(manifests, "Deployment", "spindle")
    service = {
        "metadata": {
            "namespace": deployment["metadata"]["namespace"],
            "labels": deployment["spec"]["template"]["metadata"]["labels"],
        }
    }
    driver = build_pod(settings, DriverHandle("organization", "execution", 1), (), ())
    driver["metadata"]["namespace"] = settings.kubernetes.namespace
    executor = {"metadata": {**driver["metadata"], "labels": {**driver["metadata"]["labels"], "spindle/role": "x"}}}
    stranger = {"metadata": {"namespace": settings.kubernetes.namespace, "labels": {"app": "another"}}}
    names = {"metadata": {"namespace": "kube-system", "labels": {"k8s-app": "kube-dns"}}}
    elsewhere = {"metadata": {"namespace": "another", "labels": service["metadata"]["labels"]}}
    api = find(manifests, "Service", "spindle")["spec"]["ports"][0].get("targetPort", 8080)
    port = 8080 if isinstance(api, str) else api
    admitted = [
        (driver, service, port),  # reports
        (driver, names, 53),
        (driver, executor, 7078),
        (executor, driver, 7077),
        (service, driver, SPARK_PAGE_PORT),
        (service, driver, CHANNEL_PORT),
        (stranger, service, port),
        *(
            (driver, address, 443) for address in ("93.184.216.34", "10.0.3.7", "2606:2800:21f:cb07::1")
        ),  # pages, a bucket
        *((service, address, 5432) for address in ("10.0.3.7", "10.96.0.1")),  # the database, the API server
    ]
    refused = [
        (stranger, driver, CHANNEL_PORT),
        (elsewhere, driver, CHANNEL_PORT),
        (service, driver, 22),
        (stranger, executor, 7078),
        (driver, service, 3000),  # Dagster
        *((driver, address, 80) for address in METADATA),
        *((executor, address, 80) for address in METADATA),
    ]
    for name in settings.kubernetes.cron_namespaces:
        row = CronJob(
            id="id", name="tick", organization_id="organization", namespace=name, schedule="@daily", url="https://a.org"
        )
        built = build_cron_job(settings, row)["spec"]["jobTemplate"]["spec"]["template"]
        call = {"metadata": {"namespace": name, "labels": built["metadata"]["labels"]}}
        admitted += [(call, service, port), (call, "93.184.216.34", 443)]
        refused += [(stranger, call, 80), *((call, address, 80) for address in METADATA)]
    for connections, expected in ((admitted, True), (refused, False)):
        wrong = [
            each for each in connections if admits(policies, *each, pods_have_addresses=not expected) is not expected
        ]
        assert wrong == []


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
