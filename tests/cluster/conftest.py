from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.cluster import KubernetesCluster, open_cluster
from tests.support.s3 import Bucket, get_bucket


@pytest.fixture(scope="session")
def cluster() -> Iterator[KubernetesCluster]:
    with open_cluster() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def bucket() -> Bucket:
    return get_bucket()
