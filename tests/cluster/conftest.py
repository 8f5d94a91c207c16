from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from core.infra.settings import Settings
from core.infra.storage import load_storage_secrets
from orchestration.compute import create_compute
from orchestration.compute.protocol import Compute
from pipelines.contract.request import RunRequest
from tests.support.cluster import KubernetesCluster, open_cluster
from tests.support.run_requests import make_request
from tests.support.s3 import Bucket, get_bucket
from tests.support.service import PATIENCE_SECONDS, wait_until
from tests.support.site import GatedSite

CRAWL = "fetch: {{url: '{url}'}}\npipeline: [{{stage: extract, args: [{{selector: h1, method: text, as: title}}]}}]"
ComputeFactory = Callable[..., Compute]
MakeSpec = Callable[..., RunRequest]


@pytest.fixture(scope="session")
def cluster() -> Iterator[KubernetesCluster]:
    with open_cluster() as cluster:
        yield cluster


@pytest.fixture(scope="module", autouse=True)
def empty_namespace(cluster: KubernetesCluster) -> Iterator[None]:
    """Leave the tests of the next file no pods, such as those that wait for an execution, and no Secrets."""
    yield
    cluster.core.delete_collection_namespaced_pod(cluster.namespace, grace_period_seconds=0)
    cluster.core.delete_collection_namespaced_secret(cluster.namespace)
    wait_until(lambda: not cluster.list_pods() and not cluster.list_secrets(), PATIENCE_SECONDS)


@pytest.fixture(scope="session")
def bucket() -> Bucket:
    return get_bucket()


@pytest.fixture
def create(cluster: KubernetesCluster, bucket: Bucket, tmp_path: Path) -> Iterator[ComputeFactory]:
    """Each call returns another instance for the same drivers, as another process of the service would have."""
    settings = {"data": tmp_path, **cluster.build_settings(bucket)}

    yield lambda **changes: create_compute(Settings(**(settings | changes)))
    compute = create_compute(Settings(**settings))
    for handle in compute.list():
        compute.cancel(handle)


@pytest.fixture
def make_spec(cluster: KubernetesCluster, bucket: Bucket, site: GatedSite) -> MakeSpec:
    """A driver with it waits for a page, unless it has another pipeline."""
    crawl = CRAWL.format(url=cluster.expose(site.url.rstrip("/")) + "/")

    def make_spec(execution: str, pipeline: str = crawl, attempt: int = 1) -> RunRequest:
        output = {"path": f"{bucket.address}/{execution}"}
        fetch = {"allow_networks": [f"{cluster.address}/32"]}
        return make_request(execution, attempt=attempt, pipeline_yaml=pipeline, output=output, fetch=fetch)

    return make_spec


@pytest.fixture
def secrets(cluster: KubernetesCluster, bucket: Bucket) -> dict[str, str]:
    settings = {**bucket.settings, "s3_endpoint": cluster.expose(bucket.endpoint)}
    return load_storage_secrets(Settings(**settings).storage)
