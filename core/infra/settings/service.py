"""The addresses and the keys of an instance."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, SecretStr

from core.infra.settings.area import Area
from pipelines.http_client.guard import SPARK_PAGE_PORTS

REQUESTS_PER_MINUTE = 1000


def _check_port(port: int) -> int:
    if port in SPARK_PAGE_PORTS:  # nothing that fetches reaches these, reports of drivers included
        used = f"{SPARK_PAGE_PORTS.start} to {SPARK_PAGE_PORTS.stop - 1}"
        raise ValueError(f"drivers of this machine show Spark's pages at the ports {used}; choose another.")
    return port


Port = Annotated[int, AfterValidator(_check_port)]


class ApiSettings(Area):
    """API."""

    host: str = Field(default="127.0.0.1", description="Address that the API listens on.")
    port: Port = Field(default=8080, description="Port of the API.")
    workers: int = Field(alias="api_workers", default=1, ge=1, le=64, description="Processes that serve the API.")
    root_path: str = Field(default="/api", description="Path that every operation hangs under.")
    service_segment: str = Field(default="svc", description="The service's own path segment.")
    tables_segment: str = Field(default="cms-tables", description="The path segment of the generic tables.")
    public_url: str | None = Field(
        default=None, description="Address that drivers reach the API at; http://host:port when unset."
    )
    requests_per_minute: int = Field(
        default=REQUESTS_PER_MINUTE, ge=1, description="Requests of one API key in a clock minute."
    )

    @property
    def url(self) -> str:
        """Address of the API's root path as drivers and the command line call it."""
        return (self.public_url or f"http://{self.local_host}:{self.port}").rstrip("/") + self.root_path

    @property
    def origin(self) -> str:
        """Address without the API's root path, where the console is."""
        return self.url.removesuffix(self.root_path)

    @property
    def service_url(self) -> str:
        return f"{self.url}/{self.service_segment}/api"

    @property
    def local_host(self) -> str:
        """Host at which processes of this machine reach the API."""
        return "127.0.0.1" if self.host in ("0.0.0.0", "::") else self.host  # noqa: S104 - compared, not bound


class LimitSettings(Area, alias_generator="limit_{}".format):
    """Limits of organizations."""

    executions: int | None = Field(
        default=None,
        ge=0,
        description="Most executions of an organization that are pending or running; more wait. Unset, there is no "
        "limit, and `PUT /organizations/{orgId}/limits` gives an organization its own.",
    )
    daily_executions: int | None = Field(
        default=None, ge=0, description="Most executions that an organization may begin in a day (UTC)."
    )
    storage_gigabytes: float | None = Field(
        default=None, ge=0, description="Most that the versions of an organization's datasets may take."
    )
    queries: int | None = Field(
        default=None, ge=0, description="Most queries of an organization that run at once, over all instances."
    )


class DagsterSettings(Area, alias_generator="dagster_{}".format):
    """Dagster."""

    ui_port: Port = Field(alias="ui_port", default=3000, description="Port of the Dagster UI, always on loopback.")
    ui_url: str | None = Field(
        alias="ui_url",
        default=None,
        description="Address that people reach the Dagster UI at; http://127.0.0.1:UI_PORT when unset.",
    )
    workspace: Path | None = Field(
        default=None, description="workspace.yaml with code locations beside Spindle's; Dagster's own format."
    )
    runs: int = Field(default=100, ge=1, description="Most executions that have a Dagster run at once; more wait.")

    @property
    def url(self) -> str:
        """Address of the Dagster UI for people."""
        return (self.ui_url or f"http://127.0.0.1:{self.ui_port}").rstrip("/")


LogFormat = Literal["text", "json"]


class LogSettings(Area, alias_generator="log_{}".format):
    """Log."""

    format: LogFormat = Field(
        default="text",
        description="What `spindle up` prints: warnings as text, or with `json` all lines of its log, as in the image.",
    )


class KeySettings(Area):
    """Keys of the service."""

    secret_key: SecretStr | None = Field(
        default=None,
        min_length=32,
        description="Service key, random text; DATA/secret-key, made at first start, when unset.",
    )
    admin_key: SecretStr | None = Field(
        default=None,
        min_length=32,
        description="First admin key of a new database, random text; made and written to DATA/admin-key when unset.",
    )
    new_secret_key: SecretStr | None = Field(
        default=None, min_length=32, description="What SPINDLE_SECRET_KEY is to become, for `spindle secrets rotate`."
    )
