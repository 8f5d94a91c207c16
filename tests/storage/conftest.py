"""A service whose storage is a bucket, behind a proxy that breaks connections for tests that want it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.faulty_proxy import FaultyProxy, serve_faulty_proxy
from tests.support.s3 import Bucket, get_bucket
from tests.support.service import Service, serve_service


@pytest.fixture(scope="session")
def bucket() -> Bucket:
    return get_bucket()


@pytest.fixture(scope="session")
def proxy(bucket: Bucket) -> Iterator[FaultyProxy]:
    with serve_faulty_proxy(bucket.endpoint) as proxy:
        yield proxy


@pytest.fixture(scope="session")
def on_s3(bucket: Bucket, proxy: FaultyProxy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    environment = {**bucket.environment, "SPINDLE_S3_ENDPOINT": proxy.url}
    with serve_service(tmp_path_factory.mktemp("s3"), environment) as service:
        yield service
