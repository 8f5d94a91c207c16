"""Settings, read once at start from the environment (prefix SPINDLE_), by area."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, model_validator
from sqlalchemy import make_url

from core.infra.settings.area import Area
from core.infra.settings.drivers import CostSettings, DriverSettings, ExecutionSettings, SpareSettings, SparkSettings
from core.infra.settings.kubernetes import KubernetesSettings
from core.infra.settings.pipelines import FetchSettings, ModelSettings, PluginSettings, TrainerSettings
from core.infra.settings.service import ApiSettings, DagsterSettings, KeySettings, LimitSettings, LogSettings
from core.infra.settings.sign_in import OidcSettings
from core.infra.settings.sql import SqlSettings, TrinoSettings
from core.infra.settings.storage import (
    STORAGE_ADDRESS,
    DatabaseSettings,
    FileSettings,
    RetentionSettings,
    StorageSettings,
)

POSTGRESQL_PORT = 5432
PREFIX = "spindle_"


class Settings(BaseModel):
    """All settings of one instance."""

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)

    storage: StorageSettings
    files: FileSettings
    retention: RetentionSettings
    database: DatabaseSettings
    api: ApiSettings
    limits: LimitSettings
    dagster: DagsterSettings
    log: LogSettings
    keys: KeySettings
    oidc: OidcSettings
    fetch: FetchSettings
    executions: ExecutionSettings
    drivers: DriverSettings
    spares: SpareSettings
    spark: SparkSettings
    kubernetes: KubernetesSettings
    costs: CostSettings
    sql: SqlSettings
    trino: TrinoSettings
    model: ModelSettings
    plugins: PluginSettings
    trainer: TrainerSettings

    def __init__(self, **variables: object) -> None:
        """Read the environment, in which `variables` replace those of their names (`spark_master`)."""
        environment = {name.lower(): value for name, value in os.environ.items()}
        given = {name.removeprefix(PREFIX): environment[name] for name in environment if name.startswith(PREFIX)}
        super().__init__(**dict.fromkeys(type(self).model_fields, given | variables))

    @model_validator(mode="after")
    def _check_compute(self) -> Self:
        if self.drivers.compute == "kubernetes":
            if not STORAGE_ADDRESS.fullmatch(self.storage.address or ""):
                sentence = "SPINDLE_COMPUTE=kubernetes needs SPINDLE_STORAGE=s3://bucket/prefix: pods share no folder."
                raise ValueError(sentence)
            if self.kubernetes.image is None:
                raise ValueError("SPINDLE_COMPUTE=kubernetes needs SPINDLE_KUBERNETES_IMAGE, the image of drivers.")
            if self.api.public_url is None:
                raise ValueError("SPINDLE_COMPUTE=kubernetes needs SPINDLE_PUBLIC_URL, where pods reach the API.")
        return self

    def replace(self, **variables: object) -> Self:
        """Return a copy with other values, which are not validated. Raises KeyError for an unknown variable."""
        changes: dict[str, dict[str, object]] = {}
        for variable, value in variables.items():
            area, field = FIELDS[variable]
            changes.setdefault(area, {})[field] = value
        areas: dict[str, Area] = {area: getattr(self, area).model_copy(update=new) for area, new in changes.items()}
        return self.model_copy(update=areas)

    @property
    def data(self) -> Path:
        return self.storage.data

    @property
    def own_endpoints(self) -> tuple[tuple[str, int], ...]:
        """Hosts and ports that the fetch guard always refuses: the API, the Dagster UI, and what the service uses."""
        endpoints = [(self.api.host, self.api.port), ("127.0.0.1", self.dagster.ui_port)]
        for server in filter(None, (self.storage.s3_endpoint, self.trino.address, self.spark.history_url)):
            parts = urlsplit(server)
            endpoints.append((parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)))
        if self.database.url is not None:
            url = make_url(self.database.url.get_secret_value())
            if url.get_backend_name() == "postgresql":
                endpoints.append((url.host or "127.0.0.1", url.port or POSTGRESQL_PORT))
        return tuple(endpoints)


def get_areas() -> dict[str, type[Area]]:
    """Return the class of every area, by its name in `Settings`."""
    areas: dict[str, Any] = {name: field.annotation for name, field in Settings.model_fields.items()}
    return areas


FIELDS = {
    field.alias or name: (area, name)
    for area, settings in get_areas().items()
    for name, field in settings.model_fields.items()
}  # by variable, in lower case and without the prefix
