"""Settings of drivers, and their prices."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator

from core.infra.settings.area import Area, CommaSeparated, check_address
from pipelines.language.engines import EngineName


class ExecutionSettings(Area):
    """Executions."""

    engine: EngineName = Field(
        default=EngineName.AUTO,
        description="What runs executions whose job and pipeline name no engine: `local`, `spark`, or `auto`: without "
        "Spark where that gives the same rows.",
    )
    parameter_environment: CommaSeparated = Field(
        default=(), description="Environment variables that pipelines may use as parameters."
    )
    unknown_parameters: Literal["refuse", "warn"] = Field(
        default="refuse",
        description="What becomes of an execution that sets a parameter which its pipeline does not have.",
    )
    stop_seconds: int = Field(
        default=30,
        ge=0,
        description="Seconds that a stop waits for executions; the next start executes those again that still run.",
    )
    heartbeat_seconds: float = Field(default=10, description="Time between two heartbeats of a driver.")
    lost_after_seconds: float = Field(
        default=60, description="Silence after which an execution whose driver is not found has lost it."
    )
    hung_after_seconds: float = Field(
        default=600, description="Silence after which a driver counts as lost that is there, or is being started."
    )


class DriverSettings(Area, alias_generator="driver_{}".format):
    """Drivers."""

    compute: Literal["local", "kubernetes"] = Field(
        alias="compute",
        default="local",
        description="Where drivers run: on this machine, or as pods of a cluster (docs/kubernetes.md).",
    )
    spark_drivers: int | None = Field(
        alias="spark_drivers",
        default=None,
        ge=1,
        description="Most drivers with Spark that work at once on this machine; more executions wait. By its cores and "
        "memory when unset.",
    )
    local_drivers: int | None = Field(
        alias="local_drivers",
        default=None,
        ge=1,
        description="Most executions without Spark that run at once on this machine; more wait. By its cores and "
        "memory when unset.",
    )
    local_driver_gigabytes: float | None = Field(
        alias="local_driver_gigabytes",
        default=None,
        gt=0,
        description="Most memory of a driver without Spark; half of the machine's when unset.",
    )
    reuse: bool = Field(
        default=True, description="Whether a driver with Spark serves executions of one organization one after another."
    )
    executions: int = Field(default=100, ge=1, description="Executions that such a driver serves at most.")
    idle_minutes: float = Field(default=5, gt=0, description="Time that such a driver waits for the next one.")


class SpareSettings(Area, alias_generator="spare_{}".format):
    """Spare drivers."""

    drivers: int | None = Field(
        default=None,
        ge=0,
        le=16,
        description="Drivers with Spark started that wait for executions; 1 with a local master and 8 GiB, else 0.",
    )
    driver_memory: str | None = Field(
        default=None, description="Heap of a spare driver's JVM; that of other drivers when unset."
    )
    libraries: CommaSeparated = Field(
        default=(), description="Java libraries that spare drivers have loaded, such as delta, iceberg."
    )


class SparkSettings(Area, alias_generator="spark_{}".format):
    """Spark."""

    master: str = Field(default="local[*]", description="Spark master of the drivers.")
    driver_memory: str = Field(default="2g", description="Heap of a driver's JVM.")
    executor_memory: str = Field(
        default="1g", description="Heap of an executor's JVM on a cluster; a local master has no executors."
    )
    max_cores: int | None = Field(
        default=None, ge=1, description="Most cores of a standalone cluster that an execution takes; all when unset."
    )
    event_log: bool = Field(
        default=False, description="Whether Spark's event log of each execution is stored, for a history server."
    )
    history_url: str | None = Field(
        default=None,
        description="Address of a history server of Spark over these logs, which this service reaches.",
    )

    @field_validator("history_url")
    @classmethod
    def _check_history_url(cls, value: str | None) -> str | None:
        return check_address(value, "SPINDLE_SPARK_HISTORY_URL")


class CostSettings(Area):
    """Costs."""

    cloud_provider: str = Field(default="local", description="Whose machines drivers run on, in the price table.")
    cloud_region: str = Field(default="local", description="Region of that provider.")
    driver_instance_type: str = Field(default="local", description="Instance type that a driver is charged as.")
    executor_instance_type: str = Field(default="local", description="Instance type of executors beside the driver.")
    prices: Path | None = Field(default=None, description="Price table (YAML) in place of the one that is shipped.")
