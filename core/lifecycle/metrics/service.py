"""Reads of usage and costs."""

from __future__ import annotations

from dataclasses import dataclass

from core.definitions.identity.api_keys import Identity
from core.definitions.identity.organizations import get_visible_organization
from core.definitions.jobs.repository import JobRepository
from core.definitions.projects.repository import ProjectRepository
from core.infra.database import Database
from core.lifecycle.executions.repository import ExecutionRepository
from core.lifecycle.metrics.totals import GroupBy, Overview, summarize
from core.lifecycle.usage.bills import get_bill
from core.lifecycle.usage.periods import Period
from core.tables import ExecutionBill

SUPER_ADMIN = "super_admin"


@dataclass(frozen=True, slots=True)
class OrganizationOverview:
    """The usage of one organization in a period."""

    organization_id: str
    overview: Overview


class MetricsService:
    """Every method raises NotFound for records that the caller's organization does not have."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def get_bill(self, caller: Identity, project_id: str, job_id: str, execution_id: str) -> ExecutionBill:
        """Return the bill of an execution's newest attempt; an estimate until it ends."""
        with self._database.read() as session:
            execution = ExecutionRepository(session, caller.organization_id).get(project_id, job_id, execution_id)
            return get_bill(session, execution)

    def summarize_job(self, caller: Identity, project_id: str, job_id: str, period: Period) -> Overview:
        owner = caller.organization_id
        with self._database.read() as session:
            JobRepository(session, owner).get(project_id, job_id)
            return summarize(session, owner, period, "pipeline", project_id=project_id, job_id=job_id)

    def summarize_project(self, caller: Identity, project_id: str, period: Period, group_by: GroupBy) -> Overview:
        with self._database.read() as session:
            ProjectRepository(session, caller.organization_id).get(project_id)
            return summarize(session, caller.organization_id, period, group_by, project_id=project_id)

    def summarize_organization(
        self, caller: Identity, organization_id: str, period: Period, group_by: GroupBy
    ) -> OrganizationOverview:
        """Summarize the caller's organization, or for a super admin any organization."""
        with self._database.read() as session:
            others = caller.may(SUPER_ADMIN)
            owner = get_visible_organization(session, caller.organization_id, organization_id, others=others).id
            return OrganizationOverview(owner, summarize(session, owner, period, group_by))
