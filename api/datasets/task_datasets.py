"""The output of one task: its rows, and what is known of it."""

from __future__ import annotations

from fastapi import APIRouter, Response

from api.datasets.endpoints import BigNumbers
from api.datasets.schemas import DatasetQuery, DatasetSchema, Rows, dataset_schema
from api.kit.auth import DatasetReader, KeyRoute
from api.kit.concurrency import QUERIES
from api.kit.errors import answers
from api.kit.schemas import TaskId
from api.kit.services import Services, ServicesOf
from core.errors import NotFound
from core.tasks.repository import TaskRepository

router = APIRouter(prefix="/datasets/query/task/{taskId}", tags=["datasets"], route_class=KeyRoute)


def _dataset_of(services: Services, organization_id: str, task_id: str) -> str:
    """The dataset that the task published; NotFound while there is none."""
    with services.database.read() as session:
        execution = TaskRepository(session, organization_id).by_id(task_id).execution
    if execution is None or execution.dataset_id is None:
        raise NotFound("This task has published no dataset.")
    return execution.dataset_id


@router.post("", summary="Query the output of a task with SQL", response_model=Rows, responses=answers(404, 413, 503))
def query_task(
    task_id: TaskId,
    body: DatasetQuery,
    caller: DatasetReader,
    services: ServicesOf,
    big_numbers: BigNumbers = "number",
) -> Response:
    dataset_id = _dataset_of(services, caller.organization_id, task_id)
    with QUERIES.seat(caller.organization_id):
        result = services.queries.run(caller.organization_id, body.query(big_numbers == "string", dataset_id))
    return Response(b'{"results":' + result.json + b"}", media_type="application/json")


@router.get("/info", summary="The dataset that a task published", responses=answers(404))
def read_task_output(task_id: TaskId, caller: DatasetReader, services: ServicesOf) -> DatasetSchema:
    dataset_id = _dataset_of(services, caller.organization_id, task_id)
    return dataset_schema(services.queries.table(caller.organization_id, dataset_id))
