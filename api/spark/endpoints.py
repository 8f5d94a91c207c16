"""Spark: versions and master, formats and stages, and a health check."""

from __future__ import annotations

from dataclasses import asdict
from typing import Literal

from fastapi import APIRouter

from api.kit.auth import KeyRoute, Reader
from api.kit.schemas import Record
from api.kit.services import ServicesOf
from pipelines.listing import list_all_stages

router = APIRouter(prefix="/spark", tags=["spark"], route_class=KeyRoute)


class SparkInfo(Record):
    version: str
    """Version of Spark."""
    java_version: str | None
    """Version of Java; null when it cannot be found out without starting it, or is the image's."""
    python_version: str | None
    """Version of Python, in which drivers and rows' functions run; null when it is the image's."""
    master: str
    """Spark master of the drivers."""
    cores: int | None
    """Cores that a driver uses; null when they are another machine's."""
    driver_memory: str
    """Heap of a driver's JVM, such as `2g`."""
    running_drivers: int
    """Number of the organization's drivers that run now."""
    compute: Literal["local", "kubernetes"]
    """Where drivers run: on the machine of the service, or as pods of a cluster."""
    namespace: str | None
    """Namespace of the pods; like the next fields, null unless drivers are pods."""
    image: str | None
    """Image of the pods."""
    executors: int | None
    """Pods with executors that an execution has; 0 when its driver runs all tasks."""
    executor_cores: int | None
    """Tasks that an executor runs at once; null without executors."""
    executor_memory: str | None
    """Heap of an executor's JVM, such as `1g`; null without executors."""
    running_executors: int | None
    """Number of the organization's executors that run now."""


class SparkFormats(Record):
    read: list[str]
    """Formats of the files that `load_*` stages read."""
    written: list[str]
    """Formats of the files that `save_*` stages write."""
    output: list[str]
    """Formats of the tables that executions publish."""


class SparkCapabilities(SparkInfo):
    formats: SparkFormats
    """Formats that work here: their libraries are on this machine, or are fetched when they are needed first."""
    stages: list[str]
    """Names of the stages that pipelines can be made of; `/catalog/stages` describes them."""


class SparkHealth(Record):
    status: Literal["UP"] = "UP"
    """`UP`; another state is answered with 503."""
    age_seconds: int
    """How many seconds ago Spark has worked, in a probe or in an execution; 0 where a cluster was asked now."""


@router.get("/info", summary="Facts about Spark")
def read_spark_info(caller: Reader, services: ServicesOf) -> SparkInfo:
    """Return the versions, master and memory of drivers, and how many of the organization's run now."""
    return SparkInfo(**asdict(services.spark.describe(caller)))


@router.get("/capabilities", summary="What Spark can do here")
def read_spark_capabilities(caller: Reader, services: ServicesOf) -> SparkCapabilities:
    """Return the facts about Spark together with the formats and stages that pipelines can use."""
    return SparkCapabilities(
        **asdict(services.spark.describe(caller)),
        formats=SparkFormats.model_validate(services.spark.list_formats()),
        stages=[stage.name for stage in list_all_stages()],
    )


@router.get("/health", summary="Whether a Spark session can be had")
def read_spark_health(caller: Reader, services: ServicesOf) -> SparkHealth:
    """Return `UP` when drivers can be started and Spark has worked, from what is known, and how old that is.

    A result that is older than ten minutes begins a new probe in the background, and so does the first request. Where
    drivers are pods, the cluster is asked whether it accepts one: its quotas, rights and rules of admission.
    """
    return SparkHealth(age_seconds=int(services.spark.check_health()))
