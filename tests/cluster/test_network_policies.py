"""The chart's NetworkPolicies, enforced; skipped where no plug-in of the cluster does so, such as in the test bed's.

tests/deploy evaluates the same policies for every connection, without a cluster.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any
from uuid import uuid4

import kubernetes
import pytest
import yaml
from kubernetes.utils import create_from_yaml

from tests.support.cluster import DEPLOY, DRIVERS_NAMESPACE, SERVICE, KubernetesCluster
from tests.support.service import PATIENCE_SECONDS, POLL_SECONDS, wait_until

pytestmark = pytest.mark.long

CHANNEL, OTHER = 7443, 2222  # of the ports of a driver, its service may connect to the first
LISTEN = """
import socket, time
held = [socket.create_server(("", port)) for port in {ports}]
print("listens", flush=True)
time.sleep(3600)
"""
CONNECT = """
import json, socket, time
found = []
for host, port in {targets}:
    deadline, is_open = time.monotonic() + {seconds}, None
    while is_open is None or is_open is not {expected} and time.monotonic() < deadline:
        time.sleep(0.5)
        try:
            socket.create_connection((host, port), 2).close()
            is_open = True
        except OSError:
            is_open = False
    found.append(is_open)
print(json.dumps(found), flush=True)
"""
SETTLE_SECONDS = 20  # until a plug-in has heard of a policy or a pod


@pytest.fixture
def pods(cluster: KubernetesCluster) -> Iterator[Pods]:
    made = Pods(cluster)
    yield made
    for policy in made.policies:
        made.networking.delete_namespaced_network_policy(policy, cluster.namespace)


class Pods:
    """Pods of one container that listen, or that try whether they can connect."""

    def __init__(self, cluster: KubernetesCluster) -> None:
        self.cluster = cluster
        self.networking = kubernetes.client.NetworkingV1Api(cluster.core.api_client)
        self.policies = list[str]()

    def add_policy(self, policy: Mapping[str, Any]) -> None:
        create_from_yaml(self.cluster.core.api_client, yaml_objects=[policy], namespace=self.cluster.namespace)
        self.policies.append(policy["metadata"]["name"])

    def listen(self, labels: Mapping[str, str]) -> str:
        """Start a pod that listens; return its address."""
        name = self._run(labels, LISTEN.format(ports=(CHANNEL, OTHER)))
        wait_until(lambda: "listens" in self._read(name), PATIENCE_SECONDS, every=POLL_SECONDS)
        return self.cluster.core.read_namespaced_pod(name, self.cluster.namespace).status.pod_ip

    def connect(self, labels: Mapping[str, str], targets: Collection[tuple[str, int]], *, open_: bool) -> list[bool]:
        """Return to which a pod can connect, once they are as expected or a plug-in has had its time."""
        script = CONNECT.format(targets=[*targets], seconds=SETTLE_SECONDS, expected=open_)
        name = self._run(labels, script)
        wait_until(lambda: self._read(name).endswith("]\n"), PATIENCE_SECONDS, every=POLL_SECONDS)
        return json.loads(self._read(name))

    def _run(self, labels: Mapping[str, str], script: str) -> str:
        name = f"net-{uuid4().hex[:8]}"
        container = {"name": "main", "image": self.cluster.image, "command": ["python3", "-c", script]}
        spec = {"containers": [container], "restartPolicy": "Never", "terminationGracePeriodSeconds": 0}
        body = {"metadata": {"name": name, "labels": {**labels}}, "spec": spec}
        self.cluster.core.create_namespaced_pod(self.cluster.namespace, body)
        return name

    def _read(self, name: str) -> str:
        pod = self.cluster.core.read_namespaced_pod(name, self.cluster.namespace)
        return "" if pod.status.phase == "Pending" else self.cluster.read_log(name)


def test_a_driver_is_reached_by_its_service_and_its_executors_alone(cluster: KubernetesCluster, pods: Pods) -> None:
    canary = pods.listen({"net": "canary"})
    everything = {"podSelector": {"matchLabels": {"net": "canary"}}, "policyTypes": ["Ingress"]}
    header = {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy"}
    assert pods.connect({"net": "anyone"}, [(canary, CHANNEL)], open_=True) == [True]
    pods.add_policy({**header, "metadata": {"name": "canary"}, "spec": everything})
    if pods.connect({"net": "anyone"}, [(canary, CHANNEL)], open_=False) == [True]:
        pytest.skip("no plug-in of this cluster enforces NetworkPolicies: a pod that admits nobody was reached")

    manifests = [*yaml.safe_load_all((DEPLOY / "manifests/spindle-full.yaml").read_text())]
    place = f'"{cluster.namespace}"'
    for each in manifests:
        if each["kind"] == "NetworkPolicy" and each["metadata"]["namespace"] == DRIVERS_NAMESPACE:
            text = json.dumps(each).replace(f'"{DRIVERS_NAMESPACE}"', place)
            text = text.replace(f'metadata.name": "{SERVICE}"', f'metadata.name": {place}')
            pods.add_policy(json.loads(text))
    [deployment] = [each for each in manifests if each["kind"] == "Deployment" and each["metadata"]["name"] == SERVICE]
    service = deployment["spec"]["template"]["metadata"]["labels"]
    instance = {"app.kubernetes.io/instance": service["app.kubernetes.io/instance"]}
    driver = pods.listen({**instance, "spindle/role": "driver"})
    both = [(driver, CHANNEL), (driver, OTHER)]
    assert pods.connect({**instance, "spindle/role": "executor"}, both, open_=True) == [True, True]
    assert pods.connect(service, both[:1], open_=True) == [True]
    assert pods.connect(service, both[1:], open_=False) == [False]
    assert pods.connect({"net": "anyone"}, both, open_=False) == [False, False]
