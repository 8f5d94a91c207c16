"""The output of one task: its rows, and what is known of it."""

from __future__ import annotations

from fastapi import APIRouter, Response

from api.datasets.endpoints import BigNumbers
from api.datasets.schemas import DatasetQuery, DatasetSchema, Rows, dataset_schema
from api.kit.auth import DatasetReader, KeyRoute
from api.kit.concurrency import QUERIES
from api.kit.errors import answers
from api.kit.schemas import TaskId
from api.kit.service import Service, ServiceOf
from core.errors import NotFound
from core.tasks.repository import Tasks

router = APIRouter(prefix="/datasets/query/task/{taskId}", tags=["datasets"], route_class=KeyRoute)


def _dataset_of(service: Service, organization_id: str, task_id: str) -> str:
    """The dataset that the task published; NotFound while there is none."""
    with service.database.read() as session:
        execution = Tasks(session, organization_id).by_id(task_id).execution
    if execution is None or execution.dataset_id is None:
        raise NotFound("This task has published no dataset.")
    return execution.dataset_id


@router.post("", summary="Query the output of a task with SQL", response_model=Rows, responses=answers(404, 413, 503))
def query_task(
    task_id: TaskId,
    body: DatasetQuery,
    caller: DatasetReader,
    service: ServiceOf,
    big_numbers: BigNumbers = "number",
) -> Response:
    dataset_id = _dataset_of(service, caller.organization_id, task_id)
    with QUERIES.seat(caller.organization_id):
        result = service.queries.run(caller.organization_id, body.query(big_numbers == "string", dataset_id))
    return Response(b'{"results":' + result.json + b"}", media_type="application/json")


@router.get("/info", summary="The dataset that a task published", responses=answers(404))
def read_task_output(task_id: TaskId, caller: DatasetReader, service: ServiceOf) -> DatasetSchema:
    dataset_id = _dataset_of(service, caller.organization_id, task_id)
    return dataset_schema(service.queries.table(caller.organization_id, dataset_id))
