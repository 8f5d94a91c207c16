"""One namespace of a Kubernetes cluster: requests to its API server, and their failures as sentences.

Answers are read as JSON: the client would make some hundred objects of every pod.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, cast

import kubernetes
from kubernetes.client.exceptions import ApiException
from kubernetes.config import ConfigException
from urllib3.exceptions import HTTPError

from core.errors import SpindleError, Unavailable
from core.infra.request_rate import SharedRate
from core.infra.settings import Settings

CONNECT_SECONDS, READ_SECONDS = 5.0, 30.0
PAGE = 500  # objects in one answer
_TIMEOUT = (CONNECT_SECONDS, READ_SECONDS)
_NOT_STARTED, _NOT_FOUND, _CONFLICT, _GONE = 400, 404, 409, 410
_TRANSIENT = frozenset({429, 500, 502, 503, 504})


class Refused(SpindleError):
    """The API server does not accept an object: by a quota, a rule of admission or missing rights."""

    status = 503
    retryable = True
    default_code = "cluster-refused"


class _Missing(Refused):
    """The object does not exist."""


class _Exists(Refused):
    """There is an object of this name, or it has changed."""


class Expired(SpindleError):
    """The API server does not remember the changes since a version: the objects have to be listed again."""

    status = 503
    retryable = True
    default_code = "cluster-version-expired"


@dataclass(frozen=True, slots=True)
class PodList:
    """Pods, and the version of the namespace from which a watch shows the changes after them."""

    pods: Sequence[dict[str, Any]]
    version: str


class Cluster:
    """A namespace, by default that of drivers, with the service account of a pod or the kubeconfig of a machine."""

    def __init__(self, settings: Settings, namespace: str | None = None) -> None:
        self._namespace = namespace or settings.kubernetes.namespace
        settings.data.mkdir(parents=True, exist_ok=True)
        self._rate = SharedRate(settings.data / "cluster-requests", settings.kubernetes.requests_per_second)
        configuration: Any = kubernetes.client.Configuration()
        try:
            _load_access(configuration)
        except ConfigException as error:
            raise Unavailable(f"There is no access to Kubernetes: {error} Set KUBECONFIG.") from error
        configuration.retries = 0  # callers repeat the requests that may be repeated
        api = kubernetes.client.ApiClient(configuration)
        self._core: Any = kubernetes.client.CoreV1Api(api)
        self._batch: Any = kubernetes.client.BatchV1Api(api)

    def create_pod(self, manifest: dict[str, Any]) -> dict[str, Any]:
        """Create a pod, or return the one of this name: an attempt has one pod. Raises Refused."""
        with suppress(_Exists), _translate("The cluster refuses the driver's pod"):
            return self._send(self._core.create_namespaced_pod, manifest)
        found = self.find_pod(manifest["metadata"]["name"])
        if found is None:
            raise Refused("The driver's pod was deleted while it was created.")
        return found

    def check_pod(self, manifest: dict[str, Any]) -> None:
        """Raise Refused when the API server would not accept a pod; it creates none."""
        with _translate("The cluster refuses a driver's pod"):
            self._send(self._core.create_namespaced_pod, manifest, dry_run="All")

    def create_secret(self, manifest: dict[str, Any]) -> None:
        with suppress(_Exists), _translate("The cluster refuses the driver's Secret"):
            self._send(self._core.create_namespaced_secret, manifest)

    def find_pod(self, name: str) -> dict[str, Any] | None:
        with suppress(_Missing), _translate("The pod cannot be read"):
            return _read_json(self._call(self._core.read_namespaced_pod, name))
        return None

    def list_pods(self, selector: str) -> PodList:
        """Return the pods that a selector of labels matches."""
        pods, token = [], None
        while True:
            with _translate("The pods cannot be listed"):
                options = {"label_selector": selector, "limit": PAGE, "_continue": token}
                page = _read_json(self._call(self._core.list_namespaced_pod, **options))
            pods += page["items"]
            token = page["metadata"].get("continue")
            if not token:
                return PodList(pods, page["metadata"]["resourceVersion"])

    def watch_pods(self, selector: str, version: str, seconds: int) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the kinds of the changes after a version with the pods, for some seconds.

        A BOOKMARK has only a later version. Raises Expired, and HTTPError for a lost connection.
        """
        options = {"label_selector": selector, "resource_version": version, "timeout_seconds": seconds}
        with _translate("The pods cannot be watched"):
            stream = self._call(self._core.list_namespaced_pod, watch=True, allow_watch_bookmarks=True, **options)
        with closing(stream):
            for line in split_lines(stream.stream()):
                event = json.loads(line)
                if event["type"] == "ERROR":
                    message = event["object"].get("message", "")
                    raise Expired(f"The watch of pods has ended: {message}")
                yield event["type"], event["object"]

    def delete_pod(self, name: str, grace_seconds: int, version: str | None = None) -> bool:
        """Delete a pod; with a version, return False where the pod has changed since."""
        body: dict[str, Any] = {"gracePeriodSeconds": grace_seconds}
        if version:
            body["preconditions"] = {"resourceVersion": version}
        try:
            with suppress(_Missing), _translate("The pod cannot be deleted"):
                self._call(self._core.delete_namespaced_pod, name, body=body)
        except _Exists:
            return False
        return True

    def set_labels(self, pod: dict[str, Any], labels: dict[str, str | None]) -> dict[str, Any] | None:
        """Change labels of a pod, or remove those without a value; None where the pod has changed or was deleted."""
        metadata = {"resourceVersion": pod["metadata"]["resourceVersion"], "labels": labels}
        with suppress(_Missing, _Exists), _translate("The labels of a pod cannot be changed"):
            name, patch = pod["metadata"]["name"], {"metadata": metadata}
            return _read_json(self._call(self._core.patch_namespaced_pod, name, body=patch))
        return None

    def open_log(self, name: str, *, follow: bool = False, since_seconds: int | None = None) -> Any:
        """Return the log of a pod's container as a stream of lines that begin with a time; None before it started."""
        options = {"follow": follow, "timestamps": True, "since_seconds": since_seconds}
        try:
            with suppress(_Missing), _translate("The log of a pod cannot be read"):
                return self._call(self._core.read_namespaced_pod_log, name, **options)
        except Refused as error:
            if not _has_status(error, _NOT_STARTED):
                raise
        return None

    def create_cron_job(self, manifest: dict[str, Any]) -> None:
        with _translate("The cluster refuses the cron job"):
            self._send(self._batch.create_namespaced_cron_job, manifest)

    def replace_cron_job(self, manifest: dict[str, Any]) -> None:
        with _translate("The cluster refuses the cron job"):
            self._call(self._batch.replace_namespaced_cron_job, manifest["metadata"]["name"], body=manifest)

    def delete_cron_job(self, name: str) -> None:
        """Delete a cron job, and so its jobs and their pods."""
        with suppress(_Missing), _translate("The cron job cannot be deleted"):
            self._call(self._batch.delete_namespaced_cron_job, name, propagation_policy="Background")

    def list_cron_jobs(self, selector: str) -> list[dict[str, Any]]:
        """Return the cron jobs that a selector of labels matches."""
        with _translate("The cron jobs cannot be listed"):
            return _read_json(self._call(self._batch.list_namespaced_cron_job, label_selector=selector))["items"]

    def list_jobs(self, selector: str) -> list[dict[str, Any]]:
        """Return the jobs that a selector of labels matches."""
        with _translate("The jobs cannot be listed"):
            return _read_json(self._call(self._batch.list_namespaced_job, label_selector=selector))["items"]

    def _send(self, create: Any, manifest: dict[str, Any], **options: Any) -> dict[str, Any]:
        self._rate.wait()
        answer = create(self._namespace, manifest, _preload_content=False, _request_timeout=_TIMEOUT, **options)
        return _read_json(answer)

    def _call(self, call: Any, *arguments: Any, **options: Any) -> Any:
        given = {name: value for name, value in options.items() if value is not None}
        self._rate.wait()
        return call(*arguments, self._namespace, _preload_content=False, _request_timeout=_TIMEOUT, **given)


def _load_access(configuration: Any) -> None:
    try:
        kubernetes.config.load_incluster_config(client_configuration=configuration)
    except ConfigException:
        # the client itself reads the variable when it is imported
        file = os.environ.get("KUBECONFIG") or None
        kubernetes.config.load_kube_config(file, client_configuration=configuration)


def split_lines(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Yield whole lines with their ends; the last one may lack its end."""
    rest = b""
    for part in parts:
        *lines, rest = (rest + part).split(b"\n")
        yield from (line + b"\n" for line in lines)
    if rest:
        yield rest


def _read_json(response: Any) -> dict[str, Any]:
    return json.loads(response.data)


@contextmanager
def _translate(what: str) -> Generator[None]:
    """Raise the client's exceptions as ours; `what` begins the sentence of a refusal."""
    try:
        yield
    except ApiException as error:
        status = cast(int, error.status)
        if status in _TRANSIENT:
            raise Unavailable(f"The Kubernetes API server answered {status}.") from error
        kind = {_NOT_FOUND: _Missing, _CONFLICT: _Exists, _GONE: Expired}.get(status, Refused)
        raise kind(f"{what}: {_find_message(error)}") from error
    except (HTTPError, OSError) as error:
        raise Unavailable(f"The Kubernetes API server does not answer: {type(error).__name__}.") from error


def _has_status(error: Refused, status: int) -> bool:
    return isinstance(error.__cause__, ApiException) and error.__cause__.status == status


def _find_message(error: ApiException) -> str:
    with suppress(ValueError, TypeError):
        return str(json.loads(cast(str, error.body))["message"])
    return f"status {error.status}"
