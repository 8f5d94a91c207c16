"""The cron scheduler of a cluster: a cron job is a CronJob there, whose pods call the address (caller.py).

The row has what requests read, and no next tick: nothing else fires it. Results are those of the cluster's Jobs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy.orm import Session

from core.definitions.cron_jobs.caller import BODY, KEY, TICK, URL
from core.definitions.cron_jobs.embedded import build_status
from core.definitions.cron_jobs.models import DEFAULT_NAMESPACE, CronJobCreate, CronJobUpdate
from core.definitions.cron_jobs.repository import SHOWN_CALLS, CronJobRepository
from core.definitions.cron_jobs.scheduler import CronJobStatus
from core.definitions.identity.api_keys import Identity
from core.definitions.schedules.cron import parse_cron
from core.errors import BadInput
from core.infra.cluster import Cluster
from core.infra.database import Database
from core.infra.encryption import KeyRing
from core.infra.pods import INSTANCE, Manifest, build_placement
from core.infra.settings import Settings
from core.tables import CronJob, CronJobCall, now

CRON_JOB, ORGANIZATION = "spindle/cron-job", "spindle/organization"
MAX_NAME = 43  # 52 of a CronJob, without the end that tells organizations apart
CALL_SECONDS = 120  # of a pod, with its start
REPEATS = 4
ORPHAN_AGE = timedelta(minutes=1)  # the row is committed after the CronJob was created
_NAME = re.compile(rf"[a-z0-9]([a-z0-9-]{{0,{MAX_NAME - 2}}}[a-z0-9])?")
_JOB_NAME = "batch.kubernetes.io/job-name"
_STATES = {"Complete": "DELIVERED", "Failed": "FAILED"}


class KubernetesCronScheduler:
    """Implements CronScheduler with CronJobs of a cluster."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def create(self, session: Session, caller: Identity, new: CronJobCreate, key_ring: KeyRing) -> CronJobStatus:
        columns = new.to_columns()
        self._check(columns)
        cron_job = CronJobRepository(session, caller.organization_id).insert(self._settings, columns)
        Cluster(self._settings, cron_job.namespace).create_cron_job(build_cron_job(self._settings, cron_job))
        return build_status(cron_job)

    def get(self, session: Session, caller: Identity, name: str, namespace: str = DEFAULT_NAMESPACE) -> CronJobStatus:
        cron_job = CronJobRepository(session, caller.organization_id).get(name, namespace)
        jobs = Cluster(self._settings, cron_job.namespace).list_jobs(f"{CRON_JOB}={cron_job.id}")
        calls = sorted(map(_read_call, jobs), key=lambda call: call.tick_at, reverse=True)
        return build_status(cron_job, calls[:SHOWN_CALLS])

    def update(
        self,
        session: Session,
        caller: Identity,
        name: str,
        changes: CronJobUpdate,
        key_ring: KeyRing,
        namespace: str = DEFAULT_NAMESPACE,
        if_match: Collection[str] = (),
    ) -> CronJobStatus:
        cron_jobs = CronJobRepository(session, caller.organization_id)
        cron_job, columns = cron_jobs.apply(self._settings, name, namespace, changes, if_match)
        self._check(columns)
        manifest = build_cron_job(self._settings, cron_job)
        Cluster(self._settings, cron_job.namespace).replace_cron_job(manifest)
        return build_status(cron_job)

    def delete(self, session: Session, caller: Identity, name: str, namespace: str = DEFAULT_NAMESPACE) -> None:
        cron_jobs = CronJobRepository(session, caller.organization_id)
        cron_job = cron_jobs.get(name, namespace)
        Cluster(self._settings, cron_job.namespace).delete_cron_job(name_cron_job(cron_job))
        cron_jobs.delete(name, namespace)

    def _check(self, columns: Mapping[str, str]) -> None:
        """Raise BadInput for a name that a cluster does not take, and for options that the operator does not allow."""
        if not _NAME.fullmatch(columns["name"]):
            sentence = (
                f"'name' has lower-case letters, digits and hyphens, at most {MAX_NAME}, and begins and ends "
                "with a letter or digit: it names a CronJob of the cluster."
            )
            raise BadInput(sentence, code="invalid-name", path="name")
        settings = self._settings
        allowed = {
            "namespace": settings.kubernetes.cron_namespaces,
            "image": (settings.kubernetes.image, *settings.kubernetes.cron_images),
            "secretName": settings.kubernetes.cron_secrets,
        }
        given = {
            "namespace": columns["namespace"],
            "image": columns.get("image"),
            "secretName": columns.get("secret_name"),
        }
        for path, value in given.items():
            if value is not None and value not in allowed[path]:
                raise BadInput(f"The operator does not allow '{value}' as '{path}'.", code="not-allowed", path=path)


def delete_orphans(settings: Settings, database: Database) -> None:
    """Delete the CronJobs of the cluster whose row is gone, such as with its project, or was never committed."""
    selector, until = f"{INSTANCE}={settings.kubernetes.instance},{CRON_JOB}", now() - ORPHAN_AGE
    for namespace in settings.kubernetes.cron_namespaces:
        cluster = Cluster(settings, namespace)
        for each in cluster.list_cron_jobs(selector):
            metadata = each["metadata"]
            with database.read() as session:
                is_known = session.get(CronJob, metadata["labels"][CRON_JOB]) is not None
            if not is_known and datetime.fromisoformat(metadata["creationTimestamp"]) < until:
                cluster.delete_cron_job(metadata["name"])


def name_cron_job(cron_job: CronJob) -> str:
    """Return the name of the CronJob: several organizations may have a cron job of one name."""
    return f"{cron_job.name}-{cron_job.organization_id[-8:]}".lower()


def build_cron_job(settings: Settings, cron_job: CronJob) -> Manifest:
    """Return the CronJob of the cluster."""
    labels = {
        "app.kubernetes.io/name": "spindle",
        INSTANCE: settings.kubernetes.instance,
        CRON_JOB: cron_job.id,
        ORGANIZATION: cron_job.organization_id,
    }
    metadata: Manifest = {"labels": labels}
    body = json.dumps({"jobId": cron_job.job_id, "projectId": cron_job.project_id})
    networks = ",".join(settings.fetch.allow_networks)
    plain = {URL: cron_job.url, BODY: body, "SPINDLE_FETCH_ALLOW_NETWORKS": networks}
    environment: list[Manifest] = [{"name": name, "value": value} for name, value in plain.items()]
    field = f"metadata.labels['{_JOB_NAME}']"
    environment.append({"name": TICK, "valueFrom": {"fieldRef": {"fieldPath": field}}})
    if cron_job.secret_name:
        reference = {"name": cron_job.secret_name, "key": cron_job.secret_key}
        environment.append({"name": KEY, "valueFrom": {"secretKeyRef": reference}})
    placement = build_placement(settings.kubernetes)
    container = {
        **placement.container,
        "name": "call",
        "image": cron_job.image or settings.kubernetes.image,
        "args": ["python3", "-P", "-m", "core.definitions.cron_jobs.caller"],
        "env": environment,
        "resources": {"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
    }
    pod = {"metadata": metadata, "spec": {**placement.pod, "restartPolicy": "Never", "containers": [container]}}
    job = {"backoffLimit": REPEATS, "activeDeadlineSeconds": CALL_SECONDS * (REPEATS + 1), "template": pod}
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {**metadata, "name": name_cron_job(cron_job)},
        "spec": {
            "schedule": parse_cron(cron_job.schedule).expression,
            "timeZone": cron_job.timezone,
            "suspend": not cron_job.enabled,
            "concurrencyPolicy": "Replace",  # a new tick says the same to the receiver
            "successfulJobsHistoryLimit": 10,
            "failedJobsHistoryLimit": 10,
            "jobTemplate": {"metadata": metadata, "spec": job},
        },
    }


def _read_call(job: Mapping[str, Any]) -> CronJobCall:
    """Return a Job of the cluster as the call of a tick."""
    metadata, status = job["metadata"], job.get("status", {})
    ended = {each["type"]: each for each in status.get("conditions") or () if each.get("status") == "True"}
    state = next((name for kind, name in _STATES.items() if kind in ended), "PENDING")
    created = datetime.fromisoformat(metadata["creationTimestamp"])
    failed = ended.get("Failed")
    error = {
        "at": metadata["creationTimestamp"],
        "status": None,
        "error": failed and failed["message"],
        "milliseconds": 0,
    }
    return CronJobCall(
        id=metadata["name"],
        tick_at=created,
        state=state,
        tries=[error] if failed else [],
        delivered_at=datetime.fromisoformat(status["completionTime"]) if "completionTime" in status else None,
        available_at=created,
    )
