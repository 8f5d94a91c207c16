"""The logs of executors that are pods, read by a driver in a pod with the token of its service account."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
CLUSTER_MASTER = "k8s://"
_APPLICATION, _EXECUTOR = "spark-app-selector", "spark-exec-id"
_SECONDS = 5.0


def read_pod_logs(master: str, application: str, most: int, max_bytes: int) -> Iterator[tuple[str, str]]:
    """Yield the ids of an application's executors with the ends of their logs, of at most `most` of them.

    Pods whose node does not answer are left out.
    """
    import httpx  # only drivers of clusters need it

    if not (ACCOUNT / "token").exists():
        return
    pods = f"/api/v1/namespaces/{(ACCOUNT / 'namespace').read_text()}/pods"
    headers = {"Authorization": f"Bearer {(ACCOUNT / 'token').read_text()}"}
    trusted = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
    server = master.removeprefix(CLUSTER_MASTER)
    with (
        suppress(httpx.HTTPError, ValueError, KeyError),
        httpx.Client(base_url=server, headers=headers, verify=trusted, timeout=_SECONDS, trust_env=False) as client,
    ):
        selector = {"labelSelector": f"{_APPLICATION}={application}", "limit": str(most)}
        for pod in client.get(pods, params=selector).json()["items"]:
            metadata = pod["metadata"]
            answer = client.get(f"{pods}/{metadata['name']}/log", params={"tailLines": "2000"})
            if answer.is_success:
                yield metadata["labels"][_EXECUTOR], answer.content[-max_bytes:].decode("utf-8", "replace")
