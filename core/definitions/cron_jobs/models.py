"""The fields of a cron job that a request sets."""

from __future__ import annotations

from typing import Any

from pydantic import Field
from pydantic.alias_generators import to_camel

from core.definitions.cron_jobs.secret import DEFAULT_FIELD
from core.definitions.schedules.cron import parse_cron, parse_timezone
from core.errors import BadInput
from core.infra.changes import Changes, Name, example
from core.infra.validation import NAME_LENGTH

DEFAULT_NAMESPACE = "default"
DEFAULT_TIMEZONE = "UTC"
MAX_TEXT_LENGTH = 2048
REQUIRED = ("name", "schedule", "webhook_url")


class CronJobUpdate(Changes):
    """Fields that are left out keep their value; an empty text removes an optional one."""

    model_config = example({"schedule": "0 4 * * *", "timezone": "Europe/Berlin", "enabled": True})

    schedule: str | None = Field(
        default=None, description="When it fires: minute, hour, day, month and weekday, such as `30 6 * * MON-FRI`."
    )
    cron_schedule: str | None = Field(default=None, description="Another name of `schedule`.")
    timezone: str | None = Field(default=None, description="Timezone of the schedule; `UTC` when left out at first.")
    webhook_url: str | None = Field(
        default=None, description="The http or https address that is called. Redirects are not followed."
    )
    job_id: str | None = Field(default=None, description="Is posted as `jobId`.")
    project_id: str | None = Field(default=None, description="Is posted as `projectId`.")
    secret_name: str | None = Field(
        default=None,
        description="Name of the organization's cloud credential that is sent in `X-API-Key`; on Kubernetes, of a "
        "Secret that the operator allows.",
    )
    secret_key: str | None = Field(
        default=None, description="Field of that credential, such as `apiSecret`; `apiKey` when left out at first."
    )
    enabled: bool | None = None
    """Whether it fires; true when left out at first."""


class CronJobCreate(CronJobUpdate):
    """`name`, `webhookUrl` and one of `schedule` and `cronSchedule` are required."""

    model_config = example(
        {"name": "nightly", "schedule": "30 2 * * *", "webhookUrl": "https://example.com/hook", "jobId": "books"}
    )

    name: Name
    namespace: str | None = Field(default=None, description="Groups cron jobs; `default` when left out.")
    webhook_url: str = Field(description="The http or https address that is called. Redirects are not followed.")  # pyright: ignore[reportIncompatibleVariableOverride,reportGeneralTypeIssues]
    cluster_provider: str | None = Field(default=None, description="Stored, without effect on this machine.")
    cluster_config_id: str | None = Field(default=None, description="Stored, without effect on this machine.")
    image: str | None = Field(
        default=None, description="On Kubernetes, an image that the operator allows; elsewhere stored without effect."
    )

    def to_columns(self) -> dict[str, Any]:
        """Return the columns with their defaults; an empty text counts as left out. The URL is not checked."""
        texts = {field: getattr(self, field) or None for field in type(self).model_fields if field != "enabled"}
        texts |= {"schedule": texts["schedule"] or texts["cron_schedule"], "cron_schedule": None}
        missing = next((to_camel(field) for field in REQUIRED if texts[field] is None), None)
        if missing is not None:
            raise BadInput(f"A cron job needs a '{missing}'.", code="missing-field", path=missing)
        columns = Changes.to_columns(self.model_copy(update=texts))
        for field, value in columns.items():
            longest = NAME_LENGTH if field == "namespace" else MAX_TEXT_LENGTH
            if isinstance(value, str) and len(value) > longest:
                raise BadInput(f"'{to_camel(field)}' is longer than {longest} characters.", path=to_camel(field))
        parse_cron(columns["schedule"], "schedule")
        parse_timezone(columns.setdefault("timezone", DEFAULT_TIMEZONE))
        if "secret_name" in columns:
            columns.setdefault("secret_key", DEFAULT_FIELD)
        elif "secret_key" in columns:
            sentence = "'secretKey' is a field of the cloud credential that 'secretName' names, which is missing."
            raise BadInput(sentence, code="missing-field", path="secretName")
        return {"namespace": DEFAULT_NAMESPACE, "url": columns.pop("webhook_url"), **columns}
