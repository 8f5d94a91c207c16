"""The pods of a project's or a job's executions: the map `cluster` among its parameters, within the service's limits.

{"cluster": {"driverMemory": "6Gi", "executors": 4, "nodeSelector": {"disk": "ssd"}}}
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel
from sqlalchemy import select
from sqlalchemy.orm import Session

from core.errors import Conflict
from core.infra.settings import Settings
from core.tables import Execution, Job, Project
from pipelines.contract.request import PodsSpec

CLUSTER = "cluster"  # the parameter that chooses pods rather than a value, where it is a map
MIB_PER_GIB = 1024
BESIDE_HEAP = 1024  # MiB of a driver's pod, for Python and the JVM's own
_NUMBERS = {"": 1.0, "m": 0.001}
_SIZES = {"Mi": 1.0, "m": 1.0, "Gi": MIB_PER_GIB, "g": MIB_PER_GIB}
_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)(.*)")

Cpu = Annotated[str, Field(pattern=r"^[0-9]{1,5}(\.[0-9]{1,3}|m)?$")]
Memory = Annotated[str, Field(pattern=r"^[0-9]{1,6}(Mi|Gi)$")]
Heap = Annotated[str, Field(pattern=r"^[0-9]{1,6}g$")]


class PodOptions(BaseModel):
    """The pods that a project or a job asks for. The service's settings hold for fields that are null."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", frozen=True, strict=True)

    driver_cpu: Cpu | None = None
    driver_memory: Memory | None = None
    executors: Annotated[int, Field(ge=1)] | None = None
    dynamic_allocation: bool | None = None
    executor_cpu: Cpu | None = None
    executor_memory: Heap | None = None
    node_selector: dict[str, str] | None = None


def find_pods(session: Session, settings: Settings, execution: Execution) -> PodsSpec:
    """Return the choices for an execution's pods: its job's, else its project's. Raises Conflict."""
    job = session.scalar(select(Job.parameters).where(Job.id == execution.job_id))
    project = session.scalar(select(Project.parameters).where(Project.id == execution.project_id))
    return choose_pods(settings, job or {}, project or {})


def choose_pods(settings: Settings, job: Mapping[str, object], project: Mapping[str, object]) -> PodsSpec:
    """Return the choices among the parameters of a job and its project; raise Conflict for one beyond the limits."""
    chosen: dict[str, Any] = {**_read_options(project), **_read_options(job)}
    if not chosen:
        return PodsSpec()
    if settings.drivers.compute != "kubernetes":
        raise _refuse("", "the drivers of this service are no pods")
    for name, limit in _list_limits(settings).items():
        units = _SIZES if name.endswith("memory") else _NUMBERS
        if name in chosen and _measure(chosen[name], units) > _measure(limit, units):
            raise _refuse(name, f"{chosen[name]} is more than {limit}, the limit of this service")
    selector: dict[str, str] = chosen.get("node_selector", {})
    allowed = {*settings.kubernetes.node_choices, *settings.kubernetes.node_selector}
    for key, value in selector.items():
        if (key, value) not in allowed:
            raise _refuse("node_selector", f"{key}={value} is not in SPINDLE_KUBERNETES_NODE_CHOICES")
    values: dict[str, Any] = {
        f"kubernetes_{name}": value for name, value in chosen.items() if name != "executor_memory"
    }
    if selector:
        values["kubernetes_node_selector"] = tuple({**dict(settings.kubernetes.node_selector), **selector}.items())
    if "driver_memory" in chosen:
        values["spark_driver_memory"] = _choose_heap(chosen["driver_memory"])
    if "executor_memory" in chosen:
        values["spark_executor_memory"] = chosen["executor_memory"]
    return PodsSpec(**values)


def apply_pods(settings: Settings, pods: PodsSpec) -> Settings:
    """Return the settings with the choices for one execution."""
    return settings.replace(**pods.model_dump(exclude_none=True))


def _read_options(parameters: Mapping[str, object]) -> dict[str, Any]:
    value = parameters.get(CLUSTER)
    if not isinstance(value, dict):
        return {}
    try:
        return PodOptions.model_validate(value).model_dump(exclude_none=True)
    except ValidationError as error:
        first = error.errors()[0]
        raise _refuse(".".join(map(str, first["loc"])), first["msg"]) from error


def _list_limits(settings: Settings) -> Mapping[str, object]:
    return {
        "driver_cpu": settings.kubernetes.max_driver_cpu or settings.kubernetes.driver_cpu,
        "driver_memory": settings.kubernetes.max_driver_memory or settings.kubernetes.driver_memory,
        "executors": settings.kubernetes.max_executors or settings.kubernetes.executors,
        "executor_cpu": settings.kubernetes.max_executor_cpu or settings.kubernetes.executor_cpu,
        "executor_memory": settings.kubernetes.max_executor_memory or settings.spark.executor_memory,
    }


def _measure(quantity: object, units: Mapping[str, float]) -> float:
    """Return a number, or MiB; 0 for a limit that cannot be read, which allows nothing."""
    found = _QUANTITY.fullmatch(str(quantity))
    return float(found[1]) * units.get(found[2], 0.0) if found else 0.0


def _choose_heap(memory: object) -> str:
    """Return the heap of the driver's JVM in a pod with this memory."""
    mebibytes = int(_measure(memory, _SIZES))
    return f"{max(mebibytes - BESIDE_HEAP, mebibytes // 2)}m"


def _refuse(name: str, reason: str) -> Conflict:
    path = ".".join(filter(None, ("parameters", CLUSTER, to_camel(name))))
    return Conflict(f"The pods of the execution cannot be had: {reason}.", code="cluster-option", path=path)
