"""A namespace of a Kubernetes cluster for tests: the one of KUBECONFIG, such as ../shared/testbed's.

Its nodes need the image of SPINDLE_TEST_IMAGE (tests/cluster/build-image), and reach this machine at the address from
which it reaches the API server. Tests that need a cluster are skipped without the two variables.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import kubernetes
import pytest
import yaml
from kubernetes.utils import create_from_yaml

from pipelines.spark.cluster import find_own_address
from tests.support.faulty_proxy import FaultyProxy, serve_faulty_proxy
from tests.support.s3 import Bucket

DEPLOY = Path(__file__).parents[2] / "deploy"
SERVICE, DRIVERS_NAMESPACE, CRON_NAMESPACE = "spindle", "spindle-drivers", "ticks"  # in the rendered manifests
RIGHTS = ("ServiceAccount", "Role", "RoleBinding")
TOKEN_SECONDS = 7200
BATCH_KINDS = ("cronjobs", "jobs")
KINDS = ("pods", "events", "configmaps", "services", "serviceaccounts", "persistentvolumeclaims")
DRIVERS = "spindle/role=driver"


@dataclass
class KubernetesCluster:
    """A namespace that only this test run uses; `address` is where its pods reach this machine."""

    namespace: str
    address: str
    image: str
    config: str  # the file with the access of an administrator
    stack: ExitStack = field(default_factory=ExitStack)
    core: Any = field(default_factory=lambda: kubernetes.client.CoreV1Api())

    def expose(self, url: str) -> str:
        """The address at which pods reach a server on loopback."""
        return self.stack.enter_context(serve_faulty_proxy(url, self.address)).url

    @contextmanager
    def open_faulty_access(self, path: Path) -> Generator[FaultyProxy]:
        """Write a kubeconfig that goes through a proxy, which can refuse connections."""
        config = yaml.safe_load(Path(os.environ["KUBECONFIG"]).read_text())
        with serve_faulty_proxy(self.core.api_client.configuration.host, self.address) as proxy:
            for each in config["clusters"]:
                each["cluster"]["server"] = proxy.url.replace("http:", "https:")
            path.write_text(yaml.safe_dump(config))
            yield proxy

    def list_pods(self) -> Sequence[Any]:
        return self.core.list_namespaced_pod(self.namespace).items

    def list_secrets(self) -> Sequence[Any]:
        return self.core.list_namespaced_secret(self.namespace).items

    def list_jobs(self) -> Sequence[Any]:
        return self._get(f"/apis/batch/v1/namespaces/{self.namespace}/jobs")["items"]

    def allow_cron_jobs(self) -> None:
        """Give the service the rights of a namespace with cron jobs."""
        self.create_rights(CRON_NAMESPACE)

    def create_rights(self, *rendered: str) -> None:
        """Create, in this namespace, the rights that the chart has in those that it was rendered for."""
        manifests = yaml.safe_load_all((DEPLOY / "manifests/spindle-full.yaml").read_text())
        found = [each for each in manifests if each["kind"] in RIGHTS and each["metadata"]["namespace"] in rendered]
        for each in found:
            for part in (each["metadata"], *each.get("subjects", ())):
                part["namespace"] = self.namespace
        create_from_yaml(self.core.api_client, yaml_objects=found)

    def list_rights(self) -> Sequence[str]:
        """What the service's own account may do in the namespace beyond what every account may."""
        config = kubernetes.config.new_client_from_config(os.environ["KUBECONFIG"])
        review = kubernetes.client.AuthorizationV1Api(config).create_self_subject_rules_review(
            {"spec": {"namespace": self.namespace}}
        )
        return sorted(
            f"{group or 'core'} {resource}: {' '.join(sorted(rule.verbs))}"
            for rule in review.status.resource_rules
            for group in rule.api_groups
            for resource in rule.resources
            if not group.endswith(".k8s.io")
        )

    def read_log(self, pod: str) -> str:
        return self.read(f"/api/v1/namespaces/{self.namespace}/pods/{pod}/log")

    def dump(self, namespace: str | None = None) -> Mapping[str, str]:
        """All that those may read who may read everything but Secrets, by kind."""
        namespace = namespace or self.namespace
        paths = {kind: f"/api/v1/namespaces/{namespace}/{kind}" for kind in KINDS}
        paths |= {kind: f"/apis/batch/v1/namespaces/{namespace}/{kind}" for kind in BATCH_KINDS}
        return {kind: json.dumps(self._get(path)) for kind, path in paths.items()}

    def build_settings(self, bucket: Bucket, api_port: int = 1) -> dict[str, Any]:
        """The settings of a service on this machine whose drivers are pods."""
        return {
            "compute": "kubernetes",
            "kubernetes_namespace": self.namespace,
            "kubernetes_image": self.image,
            "kubernetes_service_account": "spindle-driver",
            "kubernetes_driver_cpu": "100m",
            "kubernetes_driver_memory": "1500Mi",
            "driver_executions": 1,  # most tests wait until all pods are gone
            "public_url": self.expose(f"http://127.0.0.1:{api_port}"),
            "fetch_allow_networks": f"{self.address}/32",
            **bucket.settings,
            "s3_endpoint": self.expose(bucket.endpoint),
        }

    def build_environment(self, bucket: Bucket, api_port: int) -> Mapping[str, str]:
        """The same as environment variables; a service shares its part of the bucket with no other."""
        own = replace(bucket, prefix=f"{bucket.prefix}/{api_port}")
        settings = self.build_settings(own, api_port)
        return {f"SPINDLE_{name.upper()}": str(value) for name, value in settings.items()}

    def _get(self, path: str) -> Any:
        return json.loads(self.read(path))

    def read(self, path: str) -> str:
        """Return what the API server answers to its administrator."""
        response = self.core.api_client.call_api(
            path,
            "GET",
            auth_settings=["BearerToken"],
            _preload_content=False,
            header_params={"Accept": "application/json, text/plain"},
        )
        return response.data.decode()


@contextmanager
def open_cluster() -> Generator[KubernetesCluster]:
    image = os.environ.get("SPINDLE_TEST_IMAGE")
    if not os.environ.get("KUBECONFIG") or not image:
        pytest.skip("no cluster: KUBECONFIG and SPINDLE_TEST_IMAGE are not set")
    kubernetes.config.load_kube_config()
    server = kubernetes.client.Configuration.get_default_copy().host
    cluster = KubernetesCluster(
        f"spindle-test-{uuid4().hex[:8]}", find_own_address(f"k8s://{server}"), image, os.environ["KUBECONFIG"]
    )
    cluster.core.create_namespace({"metadata": {"name": cluster.namespace}})
    with cluster.stack, TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        try:
            cluster.create_rights(SERVICE, DRIVERS_NAMESPACE)
            patched.setenv("KUBECONFIG", str(_write_access(cluster, Path(folder) / "config")))
            yield cluster
        finally:
            cluster.core.delete_namespace(cluster.namespace)


def _write_access(cluster: KubernetesCluster, path: Path) -> Path:
    """Write a kubeconfig of the service's own account: with more rights, a missing one would not be noticed."""
    body = {"spec": {"expirationSeconds": TOKEN_SECONDS}}
    token = cluster.core.create_namespaced_service_account_token("spindle", cluster.namespace, body).status.token
    config = yaml.safe_load(Path(os.environ["KUBECONFIG"]).read_text())
    for user in config["users"]:
        user["user"] = {"token": token}
    path.write_text(yaml.safe_dump(config))
    return path
