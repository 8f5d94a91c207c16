"""The CronJob of a cluster that a cron job becomes."""

from __future__ import annotations

from typing import Any

import pytest

from core.definitions.cron_jobs.kubernetes import KubernetesCronScheduler, build_cron_job
from core.definitions.cron_jobs.models import CronJobCreate
from core.errors import BadInput
from core.infra.settings import Settings
from core.tables import CronJob

SETTINGS = Settings(
    compute="kubernetes",
    storage="s3://bucket/prefix",
    kubernetes_image="registry/spindle-spark:1",
    public_url="http://spindle:8080",
    kubernetes_cron_namespaces=("ticks",),
    kubernetes_cron_secrets=("hooks",),
)


def make_cron_job(**changes: Any) -> CronJob:
    fields = {"id": "0190", "organization_id": "0190-organization", "name": "nightly", "namespace": "ticks"}
    times = {"schedule": "30 6 * * MON-FRI", "timezone": "Europe/Berlin", "url": "https://example.com/hook"}
    return CronJob(**fields, **times, job_id="books", **changes)


def test_a_cron_job_keeps_its_schedule_and_names_its_secret() -> None:
    cron_job = build_cron_job(SETTINGS, make_cron_job(secret_name="hooks", secret_key="key"))
    spec = cron_job["spec"]
    assert (spec["schedule"], spec["timeZone"]) == ("30 6 * * 1,2,3,4,5", "Europe/Berlin")
    pod = spec["jobTemplate"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    environment = {each["name"]: each for each in container["env"]}
    assert environment["SPINDLE_CALL_KEY"]["valueFrom"] == {"secretKeyRef": {"name": "hooks", "key": "key"}}
    assert environment["SPINDLE_CALL_BODY"]["value"] == '{"jobId": "books", "projectId": null}'
    assert container["image"] == "registry/spindle-spark:1"
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert pod["automountServiceAccountToken"] is False


@pytest.mark.parametrize(
    ("changes", "path", "code"),
    [
        ({"name": "Nightly"}, "name", "invalid-name"),
        ({"name": "n" * 44}, "name", "invalid-name"),
        ({"namespace": "kube-system"}, "namespace", "not-allowed"),
        ({"image": "evil:1"}, "image", "not-allowed"),
        ({"secretName": "database"}, "secretName", "not-allowed"),
    ],
)
def test_what_the_operator_does_not_allow_is_refused(changes: dict[str, str], path: str, code: str) -> None:
    body = {"name": "nightly", "namespace": "ticks", "schedule": "0 6 * * *", "webhookUrl": "https://example.com"}
    new = CronJobCreate.model_validate(body | changes)
    with pytest.raises(BadInput) as refused:
        KubernetesCronScheduler(SETTINGS).create(None, None, new, None)  # pyright: ignore[reportArgumentType]
    assert [(each.path, each.code) for each in refused.value.details] == [(path, code)]
