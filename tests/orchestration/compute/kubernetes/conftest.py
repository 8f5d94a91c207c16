"""KubernetesCompute on a cluster in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from core.infra.settings import Settings
from orchestration.compute.kubernetes import compute, pod_watch
from orchestration.compute.kubernetes.compute import KubernetesCompute
from tests.support.fake_cluster import FakeCluster
from tests.support.service import PATIENCE_SECONDS


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(
        data=tmp_path,
        compute="kubernetes",
        storage="s3://bucket/prefix",
        kubernetes_image="spindle",
        public_url="http://spindle",
        secret_key=32 * "k",  # pyright: ignore[reportArgumentType]
    )


@pytest.fixture
def cluster(settings: Settings) -> FakeCluster:
    return FakeCluster(settings)


@pytest.fixture
def create(
    settings: Settings, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., KubernetesCompute]]:
    """Each call returns the compute of another process; their watches end with the test. No log is followed."""
    before, created = {*threading.enumerate()}, list[KubernetesCompute]()
    monkeypatch.setattr(compute, "Cluster", lambda _settings: cluster)
    monkeypatch.setattr(KubernetesCompute, "follow", lambda *_: None)

    def create(**changes: Any) -> KubernetesCompute:
        created.append(KubernetesCompute(settings.replace(**changes)))
        return created[-1]

    yield create
    for following in [log for each in created for log in each._logs.values()]:
        following.finish(0)
    monkeypatch.setattr(pod_watch, "IDLE_SECONDS", -1.0)
    for thread in [each for each in threading.enumerate() if each.name == "watch of pods" and each not in before]:
        cluster.changes.put(None)
        thread.join(PATIENCE_SECONDS)
