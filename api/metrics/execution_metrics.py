"""What one execution used and cost."""

from __future__ import annotations

from fastapi import APIRouter

from api.kit.auth import KeyRoute, Reader
from api.kit.errors import answers
from api.kit.schemas import ExecutionId, JobId, ProjectId
from api.kit.services import ServicesOf
from api.metrics.schemas import ExecutionCosts, ExecutionMetrics, execution_costs, execution_metrics
from core.executions.queries import Executions
from core.metrics.bills import bill_of

router = APIRouter(prefix="/jobs/{jobId}/executions/{executionId}", tags=["metrics"], route_class=KeyRoute)
WHEN = (
    "So far while it runs, at the prices of now; once it has ended the numbers are frozen, and later prices change "
    "nothing. Of an execution that was retried, those of the newest attempt."
)


@router.get("/metrics", summary="What an execution used and cost", description=WHEN, responses=answers(404))
def read_execution_metrics(
    project_id: ProjectId, job_id: JobId, execution_id: ExecutionId, caller: Reader, services: ServicesOf
) -> ExecutionMetrics:
    with services.database.read() as session:
        execution = Executions(session, caller.organization_id).get(project_id, job_id, execution_id)
        return execution_metrics(bill_of(session, execution))


@router.get(
    "/costs",
    summary="The costs of an execution, part by part",
    description=f"{WHEN} Each part is rounded half to even to a millionth; `total` is their exact sum.",
    responses=answers(404),
)
def read_execution_costs(
    project_id: ProjectId, job_id: JobId, execution_id: ExecutionId, caller: Reader, services: ServicesOf
) -> ExecutionCosts:
    with services.database.read() as session:
        execution = Executions(session, caller.organization_id).get(project_id, job_id, execution_id)
        return execution_costs(bill_of(session, execution))
