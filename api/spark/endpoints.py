"""Spark: versions and master, formats and stages, and a health check."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter

from api.kit.auth import KeyRoute, Reader
from api.kit.schemas import Record
from api.kit.services import ServicesOf
from core.lifecycle.spark.service import SparkFormats, SparkInfo
from pipelines.listing import list_all_stages

router = APIRouter(prefix="/spark", tags=["spark"], route_class=KeyRoute)


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
    return services.spark.describe(caller)


@router.get("/capabilities", summary="What Spark can do here")
def read_spark_capabilities(caller: Reader, services: ServicesOf) -> SparkCapabilities:
    """Return the facts about Spark together with the formats and stages that pipelines can use."""
    return SparkCapabilities(
        **services.spark.describe(caller).model_dump(),
        formats=services.spark.list_formats(),
        stages=[stage.name for stage in list_all_stages()],
    )


@router.get("/health", summary="Whether a Spark session can be had")
def read_spark_health(caller: Reader, services: ServicesOf) -> SparkHealth:
    """Return `UP` when drivers can be started and Spark has worked, from what is known, and how old that is.

    A result that is older than ten minutes begins a new probe in the background, and so does the first request. Where
    drivers are pods, the cluster is asked whether it accepts one: its quotas, rights and rules of admission.
    """
    return SparkHealth(age_seconds=int(services.spark.check_health()))
