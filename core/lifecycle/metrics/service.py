"""Reads of usage and costs; each raises NotFound for records that the caller's organization does not have."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy.orm import Session

from core.definitions.identity.api_keys import Identity
from core.definitions.identity.organizations import get_visible_organization
from core.definitions.jobs.repository import JobRepository
from core.definitions.projects.repository import ProjectRepository
from core.lifecycle.executions.repository import ExecutionRepository
from core.lifecycle.metrics.totals import GroupBy, Overview, summarize
from core.lifecycle.usage import bills
from core.lifecycle.usage.overhead import Overhead, sum_overhead
from core.lifecycle.usage.periods import Period
from core.lifecycle.usage.trainings import TrainingUsage, sum_trainings
from core.tables import ExecutionBill

SUPER_ADMIN = "super_admin"


@dataclass(frozen=True, slots=True)
class OrganizationOverview:
    """The usage of one organization in a period: its executions, its trainings, and idle time of its drivers."""

    organization_id: str
    overview: Overview
    overhead: Overhead
    training: TrainingUsage


def get_bill(session: Session, caller: Identity, project_id: str, job_id: str, execution_id: str) -> ExecutionBill:
    """Return the bill of an execution's newest attempt; an estimate until it ends."""
    execution = ExecutionRepository(session, caller.organization_id).get(project_id, job_id, execution_id)
    return bills.get_bill(session, execution)


def summarize_job(session: Session, caller: Identity, project_id: str, job_id: str, period: Period) -> Overview:
    owner = caller.organization_id
    JobRepository(session, owner).get(project_id, job_id)
    return summarize(session, owner, period, "pipeline", project_id=project_id, job_id=job_id)


def summarize_project(
    session: Session, caller: Identity, project_id: str, period: Period, group_by: GroupBy
) -> Overview:
    ProjectRepository(session, caller.organization_id).get(project_id)
    return summarize(session, caller.organization_id, period, group_by, project_id=project_id)


def summarize_organization(
    session: Session, caller: Identity, organization_id: str, period: Period, group_by: GroupBy
) -> OrganizationOverview:
    """Summarize the caller's organization, or for a super admin any organization."""
    others = caller.may(SUPER_ADMIN)
    owner = get_visible_organization(session, caller.organization_id, organization_id, others=others).id
    overview = summarize(session, owner, period, group_by)
    overhead, training = sum_overhead(session, owner, period), sum_trainings(session, owner, period)
    return OrganizationOverview(owner, overview, overhead, training)
