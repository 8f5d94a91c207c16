"""Usage and costs: of one execution, a job, a project or an organization."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Path, Query

from api.kit.auth import Admin, AnyKey, KeyRoute, Reader, SuperAdmin
from api.kit.errors import answers
from api.kit.schemas import ExecutionId, JobId, ProjectId
from api.kit.sessions import ReadSession, WriteSession
from api.metrics.schemas import (
    ExecutionCosts,
    ExecutionMetrics,
    JobMetrics,
    OrganizationLimitsRecord,
    OrganizationMetrics,
    ProjectMetrics,
    describe_limits,
    describe_overhead,
    describe_training,
    execution_costs,
    execution_metrics,
    totals_of,
)
from core.definitions.identity.limits import LimitsUpdate
from core.lifecycle.metrics import limits
from core.lifecycle.metrics import service as metrics
from core.lifecycle.metrics.totals import GroupBy
from core.lifecycle.usage.periods import Period
from core.tables import now

router = APIRouter(prefix="/organizations", tags=["metrics"], route_class=KeyRoute)
project_router = APIRouter(tags=["metrics"], route_class=KeyRoute)
execution_router = APIRouter(prefix="/jobs/{jobId}/executions/{executionId}", tags=["metrics"], route_class=KeyRoute)

MAX_DATE_LENGTH = 64
ESTIMATE = (
    "An estimate at today's prices while the execution runs. The numbers are frozen at its end. A retried execution "
    "answers with its newest attempt."
)
OrganizationId = Annotated[str, Path(alias="orgId", description="Id of the organization.")]
Breakdown = Query(alias="groupBy", description="What the breakdown has a line for.")


def _parse_period(
    start_date: Annotated[
        str | None,
        Query(
            alias="startDate",
            max_length=MAX_DATE_LENGTH,
            description="Date (from its first moment in UTC) or time, ISO 8601; 30 days before the end when left out.",
            examples=["2026-10-01"],
        ),
    ] = None,
    end_date: Annotated[
        str | None,
        Query(
            alias="endDate",
            max_length=MAX_DATE_LENGTH,
            description="Date (the whole day in UTC) or time (up to it), ISO 8601; now when left out.",
            examples=["2026-10-31"],
        ),
    ] = None,
) -> Period:
    return Period.from_texts(start_date, end_date, now())


PeriodOf = Annotated[Period, Depends(_parse_period)]


@router.get(
    "/{orgId}/metrics",
    summary="Usage and costs of an organization in a period",
    description="Admins read their own organization, `super_admin` any. An execution counts in the period in which it "
    "ended, also after it was deleted. A retried execution counts once, and each of its attempts is charged. "
    "`totalDataProcessedGb` is all that was read, written and transferred. `overhead` is the time in which drivers "
    "started Spark or waited for a next execution, which no execution is charged; `training` is that of models.",
    responses=answers(404),
)
def read_organization_metrics(
    organization_id: OrganizationId,
    caller: Admin,
    session: ReadSession,
    period: PeriodOf,
    group_by: Annotated[GroupBy, Breakdown] = "project",
) -> OrganizationMetrics:
    found = metrics.summarize_organization(session, caller, organization_id, period, group_by)
    return OrganizationMetrics(
        organization_id=found.organization_id,
        overhead=describe_overhead(found.overhead),
        training=describe_training(found.training),
        **totals_of(found.overview),
    )


@router.get("/{orgId}/limits", summary="The limits of an organization, and their use", responses=answers(404))
def read_limits(organization_id: OrganizationId, caller: AnyKey, session: ReadSession) -> OrganizationLimitsRecord:
    """Return the limits of the key's own organization; `super_admin` reads those of any."""
    return describe_limits(limits.get_limits(session, caller, organization_id))


@router.put("/{orgId}/limits", summary="Set the limits of an organization", responses=answers(404))
def set_limits(
    organization_id: OrganizationId, body: LimitsUpdate, caller: SuperAdmin, session: WriteSession
) -> OrganizationLimitsRecord:
    """Replace the limits of any organization. It needs the scope `super_admin`.

    What is null or left out is as the settings say. A lower limit ends nothing that runs.
    """
    return describe_limits(limits.set_limits(session, caller, organization_id, body))


@project_router.get("/metrics", summary="Usage and costs of a project in a period", responses=answers(404))
def read_project_metrics(
    project_id: ProjectId,
    caller: Reader,
    session: ReadSession,
    period: PeriodOf,
    group_by: Annotated[Literal["job", "pipeline"], Breakdown] = "job",
) -> ProjectMetrics:
    """Sum up the executions of a project that ended in the period, in all and by job or pipeline.

    A retried execution counts once, and each of its attempts is charged.
    """
    found = metrics.summarize_project(session, caller, project_id, period, group_by)
    return ProjectMetrics(project_id=project_id, **totals_of(found))


@project_router.get(
    "/jobs/{jobId}/metrics", summary="Usage and costs of a job in a period, by its pipelines", responses=answers(404)
)
def read_job_metrics(
    project_id: ProjectId, job_id: JobId, caller: Reader, session: ReadSession, period: PeriodOf
) -> JobMetrics:
    """Sum up the executions of a job that ended in the period, in all and by the agents whose pipelines they ran."""
    found = metrics.summarize_job(session, caller, project_id, job_id, period)
    return JobMetrics(project_id=project_id, job_id=job_id, **totals_of(found))


@execution_router.get(
    "/metrics", summary="Usage and costs of an execution", description=ESTIMATE, responses=answers(404)
)
def read_execution_metrics(
    project_id: ProjectId, job_id: JobId, execution_id: ExecutionId, caller: Reader, session: ReadSession
) -> ExecutionMetrics:
    return execution_metrics(metrics.get_bill(session, caller, project_id, job_id, execution_id))


@execution_router.get(
    "/costs",
    summary="The costs of an execution, part by part",
    description=f"{ESTIMATE} Each part is rounded half to even to a millionth; `total` is their exact sum.",
    responses=answers(404),
)
def read_execution_costs(
    project_id: ProjectId, job_id: JobId, execution_id: ExecutionId, caller: Reader, session: ReadSession
) -> ExecutionCosts:
    return execution_costs(metrics.get_bill(session, caller, project_id, job_id, execution_id))
