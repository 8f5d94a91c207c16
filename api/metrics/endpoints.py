"""What the executions of an organization used and cost in a period."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query

from api.kit.auth import Admin, KeyRoute
from api.kit.errors import answers
from api.kit.services import ServicesOf
from api.metrics.periods import PeriodOf
from api.metrics.schemas import OrganizationMetrics, organization_metrics
from core.identity.organizations import reachable_organization
from core.metrics.totals import GroupBy, overview

router = APIRouter(prefix="/organizations", tags=["metrics"], route_class=KeyRoute)
SUPER_ADMIN = "super_admin"
OrganizationId = Annotated[str, Path(alias="orgId", description="Id of the organization.")]
Grouping = Annotated[GroupBy, Query(alias="groupBy", description="What the breakdown has a line for.")]


@router.get(
    "/{orgId}/metrics",
    summary="What an organization's executions used and cost in a period",
    description="An admin sees the own organization, `super_admin` every one. An execution counts in the period in "
    "which it ended; what was deleted since still counts. One that was retried is one execution, and each of its "
    "attempts is paid for. `totalDataProcessedGb` is all that was read, written and transferred.",
    responses=answers(404),
)
def read_organization_metrics(
    organization_id: OrganizationId,
    caller: Admin,
    services: ServicesOf,
    period: PeriodOf,
    group_by: Grouping = "project",
) -> OrganizationMetrics:
    with services.database.read() as session:
        others = caller.may(SUPER_ADMIN)
        owner = reachable_organization(session, caller.organization_id, organization_id, others=others)
        return organization_metrics(owner.id, overview(session, owner.id, period, group_by))
