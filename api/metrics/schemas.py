"""Metrics and costs as JSON. A GB has 10^9 bytes; costs have six decimals, and parts add up to totals exactly."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pydantic import ConfigDict

from api.kit.schemas import Record
from core.metrics.costs import MILLION, SECONDS_PER_HOUR
from core.metrics.totals import Group, Overview, Sums, cost
from core.metrics.usage import GB
from core.tables import ExecutionBill

EXECUTION = "0199f3a0-5b1c-7a52-9d3e-2f6c8b7a1e04"
JOB = "0199f39e-11d4-7c0a-8a6e-51b0c9d7e2f3"
PROJECT = "0199f39d-6e02-7b91-b1c4-08a7d5e3f6b2"
ORGANIZATION = "0199f39c-a7f0-7d3b-95e2-c4d1b0a8f795"


def _example(**fields: Any) -> ConfigDict:
    return ConfigDict(json_schema_extra={"examples": [fields]})


class Infrastructure(Record):
    cpu_seconds: float
    memory_gb_hours: float
    storage_read_gb: float
    storage_write_gb: float
    network_transfer_gb: float


class Work(Record):
    """`dataVolumeGb` is all that was read, written and transferred."""

    duration_seconds: int
    tasks_completed: int
    records_processed: int
    data_volume_gb: float


class CostSummary(Record):
    compute_cost: float
    storage_cost: float
    network_cost: float
    total_cost: float
    currency: str


class Measures(Record):
    infrastructure: Infrastructure
    execution: Work
    costs: CostSummary


class ExecutionMetrics(Record):
    model_config = _example(
        executionId=EXECUTION,
        jobId=JOB,
        metrics={
            "infrastructure": {
                "cpuSeconds": 42.75,
                "memoryGbHours": 0.086,
                "storageReadGb": 0.0,
                "storageWriteGb": 0.012,
                "networkTransferGb": 0.31,
            },
            "execution": {
                "durationSeconds": 180,
                "tasksCompleted": 8,
                "recordsProcessed": 5100,
                "dataVolumeGb": 0.322,
            },
            "costs": {
                "computeCost": 0.0048,
                "storageCost": 0.000276,
                "networkCost": 0.0,
                "totalCost": 0.005076,
                "currency": "USD",
            },
        },
        cloudProvider="aws",
        region="us-east-1",
    )
    execution_id: str
    job_id: str
    metrics: Measures
    cloud_provider: str
    region: str


class Machines(Record):
    """`hours` are those of all `count` machines; executors inside of the driver's machine have none of their own."""

    instance_type: str
    count: int
    hours: float
    cost: float


class Traffic(Record):
    gb: float
    cost: float


class Compute(Record):
    driver: Machines
    executors: Machines


class Storage(Record):
    read: Traffic
    write: Traffic


class Network(Record):
    data_transfer: Traffic


class CostBreakdown(Record):
    compute: Compute
    storage: Storage
    network: Network
    total: float
    currency: str


class ExecutionCosts(Record):
    model_config = _example(
        executionId=EXECUTION,
        costBreakdown={
            "compute": {
                "driver": {"instanceType": "m5.large", "count": 1, "hours": 0.05, "cost": 0.0048},
                "executors": {"instanceType": "m5.large", "count": 1, "hours": 0.0, "cost": 0.0},
            },
            "storage": {"read": {"gb": 0.0, "cost": 0.0}, "write": {"gb": 0.012, "cost": 0.000276}},
            "network": {"dataTransfer": {"gb": 0.31, "cost": 0.0}},
            "total": 0.005076,
            "currency": "USD",
        },
    )
    execution_id: str
    cost_breakdown: CostBreakdown


class Span(Record):
    """From `start` up to, and without, `end`."""

    start: datetime
    end: datetime


class Totals(Record):
    total_jobs: int
    total_executions: int
    total_cost: float
    total_cpu_hours: float
    total_memory_gb_hours: float
    total_data_processed_gb: float


class GroupTotals(Totals):
    """Of one project, job or pipeline; its name is null when it was deleted."""

    id: str
    name: str | None


class _Metrics(Record):
    period: Span
    currency: str
    summary: Totals
    breakdown: list[GroupTotals]


_TOTALS: dict[str, Any] = {
    "totalJobs": 3,
    "totalExecutions": 120,
    "totalCost": 0.60912,
    "totalCpuHours": 1.425,
    "totalMemoryGbHours": 10.32,
    "totalDataProcessedGb": 38.64,
}
_EXAMPLE: dict[str, Any] = {
    "period": {"start": "2026-10-01T00:00:00Z", "end": "2026-11-01T00:00:00Z"},
    "currency": "USD",
    "summary": _TOTALS,
}


class OrganizationMetrics(_Metrics):
    model_config = _example(
        organizationId=ORGANIZATION, **_EXAMPLE, breakdown=[{"id": PROJECT, "name": "Books", **_TOTALS}]
    )
    organization_id: str


class ProjectMetrics(_Metrics):
    model_config = _example(
        projectId=PROJECT, **_EXAMPLE, breakdown=[{"id": JOB, "name": "Books of Acme", **_TOTALS, "totalJobs": 1}]
    )
    project_id: str


class JobMetrics(_Metrics):
    model_config = _example(
        jobId=JOB, projectId=PROJECT, **(_EXAMPLE | {"summary": _TOTALS | {"totalJobs": 1}}), breakdown=[]
    )
    job_id: str
    project_id: str


def execution_metrics(bill: ExecutionBill) -> ExecutionMetrics:
    volume = bill.bytes_read + bill.bytes_written + bill.network_bytes
    return ExecutionMetrics(
        execution_id=bill.execution_id,
        job_id=bill.job_id,
        metrics=Measures(
            infrastructure=Infrastructure(
                cpu_seconds=bill.cpu_ms / 1000,
                memory_gb_hours=_gb_hours(bill.memory_mb_seconds),
                storage_read_gb=bill.bytes_read / GB,
                storage_write_gb=bill.bytes_written / GB,
                network_transfer_gb=bill.network_bytes / GB,
            ),
            execution=Work(
                duration_seconds=bill.seconds,
                tasks_completed=bill.tasks,
                records_processed=bill.records,
                data_volume_gb=volume / GB,
            ),
            costs=_costs(bill),
        ),
        cloud_provider=bill.provider,
        region=bill.region,
    )


def execution_costs(bill: ExecutionBill) -> ExecutionCosts:
    driver = _machines(bill.driver_instance, 1, bill.seconds, bill.driver_cost)
    executors = _machines(bill.executor_instance, bill.executor_count, bill.executor_seconds, bill.executors_cost)
    costs = _costs(bill)
    return ExecutionCosts(
        execution_id=bill.execution_id,
        cost_breakdown=CostBreakdown(
            compute=Compute(driver=driver, executors=executors),
            storage=Storage(
                read=_traffic(bill.bytes_read, bill.read_cost), write=_traffic(bill.bytes_written, bill.write_cost)
            ),
            network=Network(data_transfer=_traffic(bill.network_bytes, bill.network_cost)),
            total=costs.total_cost,
            currency=costs.currency,
        ),
    )


def organization_metrics(organization_id: str, found: Overview) -> OrganizationMetrics:
    return OrganizationMetrics(organization_id=organization_id, **_metrics(found))


def project_metrics(project_id: str, found: Overview) -> ProjectMetrics:
    return ProjectMetrics(project_id=project_id, **_metrics(found))


def job_metrics(project_id: str, job_id: str, found: Overview) -> JobMetrics:
    return JobMetrics(project_id=project_id, job_id=job_id, **_metrics(found))


def _costs(bill: ExecutionBill) -> CostSummary:
    compute, storage = bill.driver_cost + bill.executors_cost, bill.read_cost + bill.write_cost
    return CostSummary(
        compute_cost=compute / MILLION,
        storage_cost=storage / MILLION,
        network_cost=bill.network_cost / MILLION,
        total_cost=(compute + storage + bill.network_cost) / MILLION,
        currency=bill.currency,
    )


def _machines(instance: str, count: int, seconds: int, millionths: int) -> Machines:
    hours = round(seconds / SECONDS_PER_HOUR, 6)
    return Machines(instance_type=instance, count=count, hours=hours, cost=millionths / MILLION)


def _traffic(amount: int, millionths: int) -> Traffic:
    return Traffic(gb=amount / GB, cost=millionths / MILLION)


def _metrics(found: Overview) -> Mapping[str, Any]:
    return {
        "period": Span(start=found.period.start, end=found.period.end),
        "currency": found.currency,
        "summary": Totals(**_totals(found.summary)),
        "breakdown": [_group(group) for group in found.groups],
    }


def _group(group: Group) -> GroupTotals:
    return GroupTotals(id=group.id, name=group.name, **_totals(group.sums))


def _totals(sums: Sums) -> dict[str, Any]:
    amounts = sums.amounts
    return {
        "total_jobs": len(sums.jobs),
        "total_executions": amounts["executions"],
        "total_cost": cost(sums) / MILLION,
        "total_cpu_hours": round(amounts["cpu_ms"] / 1000 / SECONDS_PER_HOUR, 9),
        "total_memory_gb_hours": _gb_hours(amounts["memory_mb_seconds"]),
        "total_data_processed_gb": (amounts["bytes_read"] + amounts["bytes_written"] + amounts["network_bytes"]) / GB,
    }


def _gb_hours(megabyte_seconds: int) -> float:
    return round(megabyte_seconds / 1000 / SECONDS_PER_HOUR, 9)
