"""JSON of usage and costs. A GB is 10^9 bytes. Costs have six decimals, totals are exact sums of their parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any

from pydantic import ConfigDict

from api.kit.schemas import Record
from core.lifecycle.metrics.limits import LimitsInUse
from core.lifecycle.metrics.totals import Overview, Sums, add_costs
from core.lifecycle.usage.bills import MILLION, SECONDS_PER_HOUR
from core.lifecycle.usage.overhead import Overhead
from core.lifecycle.usage.trainings import TrainingUsage
from core.lifecycle.usage.usage import GB
from core.tables import ExecutionBill

EXECUTION = "0199f3a0-5b1c-7a52-9d3e-2f6c8b7a1e04"
JOB = "0199f39e-11d4-7c0a-8a6e-51b0c9d7e2f3"
PROJECT = "0199f39d-6e02-7b91-b1c4-08a7d5e3f6b2"
ORGANIZATION = "0199f39c-a7f0-7d3b-95e2-c4d1b0a8f795"


def _example(**fields: Any) -> ConfigDict:
    return ConfigDict(json_schema_extra={"examples": [fields]})


class ResourceUsage(Record):
    cpu_seconds: float
    """CPU time of driver and executors, in seconds."""
    memory_gb_hours: float
    """Memory over time, in GB hours."""
    storage_read_gb: float
    """Data that Spark read, in GB."""
    storage_write_gb: float
    """Data that Spark wrote, in GB."""
    network_transfer_gb: float
    """Data that was fetched, as transferred, in GB."""


class WorkDone(Record):
    """`dataVolumeGb` is all data that was read, written and transferred."""

    duration_seconds: int
    """Time from start to end, in seconds."""
    tasks_completed: int
    """Number of Spark's tasks that were completed."""
    records_processed: int
    """Largest number of rows of a stage."""
    data_volume_gb: float
    """All data that was read, written and fetched, in GB."""


class CostSummary(Record):
    compute_cost: float
    """Cost of the driver and the executors."""
    storage_cost: float
    """Cost of reading and writing."""
    network_cost: float
    """Cost of data transfer."""
    total_cost: float
    """Sum of the three."""
    currency: str


class UsageAndCosts(Record):
    infrastructure: ResourceUsage
    """Resources that it used."""
    execution: WorkDone
    """Work that it did."""
    costs: CostSummary
    """What this costs."""


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
    metrics: UsageAndCosts
    """Usage and costs."""
    cloud_provider: str
    """Provider in the price table."""
    region: str
    """Region in the price table."""


class MachineCosts(Record):
    """`hours` is the sum over all `count` machines; executors on the driver's machine have no machine of their own."""

    instance_type: str
    """Instance type in the price table."""
    count: int
    """Number of machines."""
    hours: float
    """Hours of all these machines together."""
    cost: float
    """Cost of these hours."""


class TrafficCosts(Record):
    gb: float
    """Amount of data, in GB."""
    cost: float
    """Cost of this amount."""


class ComputeCosts(Record):
    driver: MachineCosts
    """The driver's machine."""
    executors: MachineCosts
    """Machines of executors."""


class StorageCosts(Record):
    read: TrafficCosts
    """Data read."""
    write: TrafficCosts
    """Data written."""


class NetworkCosts(Record):
    data_transfer: TrafficCosts
    """Data fetched."""


class CostBreakdown(Record):
    compute: ComputeCosts
    """Cost of machines."""
    storage: StorageCosts
    """Cost of storage."""
    network: NetworkCosts
    """Cost of the network."""
    total: float
    """Sum of all parts."""
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
    """The costs, part by part."""


class PeriodRecord(Record):
    """From `start` to `end`, which is exclusive."""

    start: datetime
    """First moment of the period."""
    end: datetime
    """First moment after the period."""


class Totals(Record):
    total_jobs: int
    """Number of jobs with such executions."""
    total_executions: int
    """Number of executions."""
    total_cost: float
    """Sum of their costs."""
    total_cpu_hours: float
    """CPU time, in hours."""
    total_memory_gb_hours: float
    """Memory over time, in GB hours."""
    total_data_processed_gb: float
    """Data that was read, written and fetched, in GB."""


class GroupTotals(Totals):
    """The totals of one project, job or pipeline, whose name is null when it was deleted."""

    id: str
    """Id of the project, job or agent."""
    name: str | None
    """Its name; null when it was deleted."""


class _PeriodMetrics(Record):
    period: PeriodRecord
    """The period in which the executions ended."""
    currency: str
    summary: Totals
    """Sums of all these executions."""
    breakdown: list[GroupTotals]
    """Sums by project, job or pipeline, the most expensive first."""


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


class DriverOverhead(Record):
    """Time of drivers with Spark that belongs to no execution. Hours that begin in the period count."""

    start_seconds: float
    """Time in which drivers that executions took then had started Spark, in seconds."""
    idle_seconds: float
    """Time in which drivers waited for a next execution, in seconds."""
    cost: float
    """Cost of this time, which is not in `summary`."""


class TrainingTotals(Record):
    """Trainings that ended in the period, at all providers."""

    trainings: int
    """Number of the trainings."""
    seconds: int
    """Time from their start to their end, in seconds."""
    tokens: int
    """Tokens that providers have charged."""
    cost: float
    """Cost in US dollars, as far as it is known. It is not in `summary`."""


class OrganizationMetrics(_PeriodMetrics):
    model_config = _example(
        organizationId=ORGANIZATION,
        **_EXAMPLE,
        overhead={"startSeconds": 9.4, "idleSeconds": 310.2, "cost": 0.008523},
        training={"trainings": 2, "seconds": 3610, "tokens": 1200000, "cost": 3.6},
        breakdown=[{"id": PROJECT, "name": "Books", **_TOTALS}],
    )
    organization_id: str
    overhead: DriverOverhead
    """Time of its drivers that belongs to no execution."""
    training: TrainingTotals
    """Trainings of models, which belong to no project."""


class ProjectMetrics(_PeriodMetrics):
    model_config = _example(
        projectId=PROJECT, **_EXAMPLE, breakdown=[{"id": JOB, "name": "Books of Acme", **_TOTALS, "totalJobs": 1}]
    )
    project_id: str


class JobMetrics(_PeriodMetrics):
    model_config = _example(
        jobId=JOB, projectId=PROJECT, **(_EXAMPLE | {"summary": _TOTALS | {"totalJobs": 1}}), breakdown=[]
    )
    job_id: str
    project_id: str


class LimitInUse(Record):
    limit: int | None
    """Null where there is none."""
    used: int
    """What counts against it now."""


class OrganizationLimitsRecord(Record):
    """The limits of an organization: its own, or those of the settings."""

    organization_id: str
    executions_at_once: LimitInUse
    """Executions that are pending or running."""
    executions_a_day: LimitInUse
    """Executions that were begun today (UTC), also those that were deleted since the limit holds."""
    storage_bytes: LimitInUse
    """Bytes of the kept versions of all datasets: outputs, saves, uploads and trials."""
    queries_at_once: LimitInUse
    """Queries that run; without a limit only those in the background are counted."""
    next_day: datetime
    """When the executions of a day are counted anew."""


def describe_limits(found: LimitsInUse) -> OrganizationLimitsRecord:
    limits = {name: LimitInUse(limit=limit, used=found.used[name]) for name, limit in asdict(found.limits).items()}
    return OrganizationLimitsRecord(organization_id=found.organization_id, next_day=found.next_day, **limits)


def execution_metrics(bill: ExecutionBill) -> ExecutionMetrics:
    volume = bill.bytes_read + bill.bytes_written + bill.network_bytes
    return ExecutionMetrics(
        execution_id=bill.execution_id,
        job_id=bill.job_id,
        metrics=UsageAndCosts(
            infrastructure=ResourceUsage(
                cpu_seconds=bill.cpu_ms / 1000,
                memory_gb_hours=_convert_to_gb_hours(bill.memory_mb_seconds),
                storage_read_gb=bill.bytes_read / GB,
                storage_write_gb=bill.bytes_written / GB,
                network_transfer_gb=bill.network_bytes / GB,
            ),
            execution=WorkDone(
                duration_seconds=bill.seconds,
                tasks_completed=bill.tasks,
                records_processed=bill.records,
                data_volume_gb=volume / GB,
            ),
            costs=_summarize_costs(bill),
        ),
        cloud_provider=bill.provider,
        region=bill.region,
    )


def execution_costs(bill: ExecutionBill) -> ExecutionCosts:
    driver = _describe_machines(bill.driver_instance, 1, bill.seconds, bill.driver_cost)
    executors = _describe_machines(
        bill.executor_instance, bill.executor_count, bill.executor_seconds, bill.executors_cost
    )
    costs = _summarize_costs(bill)
    return ExecutionCosts(
        execution_id=bill.execution_id,
        cost_breakdown=CostBreakdown(
            compute=ComputeCosts(driver=driver, executors=executors),
            storage=StorageCosts(
                read=_describe_traffic(bill.bytes_read, bill.read_cost),
                write=_describe_traffic(bill.bytes_written, bill.write_cost),
            ),
            network=NetworkCosts(data_transfer=_describe_traffic(bill.network_bytes, bill.network_cost)),
            total=costs.total_cost,
            currency=costs.currency,
        ),
    )


def totals_of(found: Overview) -> Mapping[str, Any]:
    """The fields that the metrics of organizations, projects and jobs share."""
    groups = [GroupTotals(id=group.id, name=group.name, **_sum_fields(group.sums)) for group in found.groups]
    return {
        "period": PeriodRecord(start=found.period.start, end=found.period.end),
        "currency": found.currency,
        "summary": Totals(**_sum_fields(found.summary)),
        "breakdown": groups,
    }


def describe_overhead(overhead: Overhead) -> DriverOverhead:
    return DriverOverhead(
        start_seconds=overhead.start_ms / 1000, idle_seconds=overhead.idle_ms / 1000, cost=overhead.cost / MILLION
    )


def describe_training(usage: TrainingUsage) -> TrainingTotals:
    return TrainingTotals(
        trainings=usage.trainings, seconds=usage.seconds, tokens=usage.tokens, cost=usage.cost / MILLION
    )


def _summarize_costs(bill: ExecutionBill) -> CostSummary:
    compute, storage = bill.driver_cost + bill.executors_cost, bill.read_cost + bill.write_cost
    return CostSummary(
        compute_cost=compute / MILLION,
        storage_cost=storage / MILLION,
        network_cost=bill.network_cost / MILLION,
        total_cost=(compute + storage + bill.network_cost) / MILLION,
        currency=bill.currency,
    )


def _describe_machines(instance: str, count: int, seconds: int, millionths: int) -> MachineCosts:
    hours = round(seconds / SECONDS_PER_HOUR, 6)
    return MachineCosts(instance_type=instance, count=count, hours=hours, cost=millionths / MILLION)


def _describe_traffic(amount: int, millionths: int) -> TrafficCosts:
    return TrafficCosts(gb=amount / GB, cost=millionths / MILLION)


def _sum_fields(sums: Sums) -> dict[str, Any]:
    amounts = sums.amounts
    return {
        "total_jobs": len(sums.jobs),
        "total_executions": amounts["executions"],
        "total_cost": add_costs(sums) / MILLION,
        "total_cpu_hours": round(amounts["cpu_ms"] / 1000 / SECONDS_PER_HOUR, 9),
        "total_memory_gb_hours": _convert_to_gb_hours(amounts["memory_mb_seconds"]),
        "total_data_processed_gb": (amounts["bytes_read"] + amounts["bytes_written"] + amounts["network_bytes"]) / GB,
    }


def _convert_to_gb_hours(megabyte_seconds: int) -> float:
    return round(megabyte_seconds / 1000 / SECONDS_PER_HOUR, 9)
