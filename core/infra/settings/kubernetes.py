"""Drivers and cron jobs as pods of a cluster."""

from __future__ import annotations

from pydantic import Field, ValidationInfo, field_validator

from core.infra.settings.area import Area, CommaSeparated

KeyValues = tuple[tuple[str, str], ...]


class KubernetesSettings(Area, alias_generator="kubernetes_{}".format):
    """Kubernetes."""

    namespace: str = Field(default="default", description="Namespace of the drivers' pods.")
    instance: str = Field(
        default="spindle",
        pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$",
        description="Label of this installation's pods; another installation in the namespace needs another one.",
    )
    image: str | None = Field(default=None, description="Image of drivers (deploy/docker/Dockerfile).")
    pull_secrets: CommaSeparated = Field(default=(), description="Secrets to pull that image with.")
    service_account: str = Field(default="default", description="Service account of the drivers' pods.")
    driver_cpu: str = Field(default="500m", description="CPU that a driver's pod requests.")
    driver_memory: str = Field(default="3Gi", description="Memory that a driver's pod requests, and its limit.")
    executors: int = Field(
        default=2, ge=1, description="Executors of an execution where SPINDLE_SPARK_MASTER is a k8s:// address."
    )
    dynamic_allocation: bool = Field(
        default=False,
        description="Whether these executors come and go with the tasks of an execution, which begins with one.",
    )
    executor_cores: int = Field(default=1, ge=1, description="Tasks that an executor runs at once.")
    executor_cpu: str = Field(default="1", description="CPU that an executor's pod requests.")
    max_driver_cpu: str | None = Field(
        default=None,
        description="Most CPU that a project or a job may choose for drivers; like the next ones, the service's own "
        "value when unset.",
    )
    max_driver_memory: str | None = Field(default=None, description="Most memory of a driver, such as 8Gi.")
    max_executors: int | None = Field(default=None, ge=1, description="Most executors of an execution.")
    max_executor_cpu: str | None = Field(default=None, description="Most CPU of an executor.")
    max_executor_memory: str | None = Field(default=None, description="Largest heap of one, such as 4g.")
    node_choices: KeyValues = Field(
        default=(), description="Labels of nodes that projects and jobs may select: key=value."
    )
    drivers: int = Field(
        default=100, ge=1, description="Most drivers' pods that work at once; more executions wait in turn."
    )
    requests_per_second: float = Field(
        default=50, gt=0, description="Most requests to the API server of all processes of this machine."
    )
    cron_namespaces: CommaSeparated = Field(
        default=(),
        description="Namespaces that cron jobs may be in; they are CronJobs of the cluster then, not the service's.",
    )
    cron_images: CommaSeparated = Field(
        default=(), description="Images that a cron job may name beside that of drivers, which have Spindle in them."
    )
    cron_secrets: CommaSeparated = Field(
        default=(), description="Secrets of those namespaces that cron jobs may send a key of."
    )
    node_selector: KeyValues = Field(default=(), description="Labels of the nodes for drivers: key=value.")
    tolerations: CommaSeparated = Field(
        default=(), description="Taints that drivers tolerate: key, key=value, key:effect or key=value:effect."
    )
    pending_minutes: float = Field(
        default=5, gt=0, description="Time after which a driver that no node has room for is given up."
    )

    @field_validator("node_choices", "node_selector", mode="before")
    @classmethod
    def _split_pairs(cls, value: object, info: ValidationInfo) -> object:
        if not isinstance(value, str):
            return value
        parts = [part.strip().partition("=") for part in value.split(",") if part.strip()]
        if not all(key and sign for key, sign, _ in parts):
            name = f"SPINDLE_KUBERNETES_{(info.field_name or '').upper()}"
            raise ValueError(f"{name}: its parts are key=value, with commas between them.")
        return tuple((key, text) for key, _, text in parts)
