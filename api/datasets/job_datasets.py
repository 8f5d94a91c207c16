"""One dataset of a job: its rows and its schema."""

from __future__ import annotations

import json
import time

from fastapi import APIRouter, Response

from api.datasets.endpoints import BigNumbers
from api.datasets.schemas import BoundQuery, BoundRows, DatasetSchema, dataset_schema
from api.kit.auth import DatasetReader, KeyRoute
from api.kit.concurrency import QUERIES
from api.kit.errors import answers
from api.kit.schemas import DatasetId, JobId, ProjectId
from api.kit.services import Services, ServicesOf
from core.datasets.repository import Datasets
from core.errors import NotFound
from core.sql.queries import DEFAULT_ROWS, NO_DATASET, Query
from core.tables import new_id

router = APIRouter(prefix="/jobs/{jobId}/datasets/{datasetId}", tags=["datasets"], route_class=KeyRoute)


def _check(services: Services, organization_id: str, place: tuple[str, str], dataset_id: str) -> None:
    """Raises NotFound unless the dataset is this project's and job's."""
    with services.database.read() as session:
        dataset = Datasets(session, organization_id).get(dataset_id)
    if (dataset.project_id, dataset.job_id) != place:
        raise NotFound(NO_DATASET)


@router.post("/query", summary="Query one dataset with SQL", response_model=BoundRows, responses=answers(404, 413, 503))
def query_dataset(
    project_id: ProjectId,
    job_id: JobId,
    dataset_id: DatasetId,
    body: BoundQuery,
    caller: DatasetReader,
    services: ServicesOf,
    big_numbers: BigNumbers = "number",
) -> Response:
    _check(services, caller.organization_id, (project_id, job_id), dataset_id)
    started = time.perf_counter()
    limit = DEFAULT_ROWS if body.limit is None else body.limit
    query = Query(
        body.sql, limit=limit, offset=body.offset or 0, dataset_id=dataset_id, big_numbers=big_numbers == "string"
    )
    with QUERIES.seat(caller.organization_id):
        result = services.queries.run(caller.organization_id, query)
    milliseconds = round((time.perf_counter() - started) * 1000)
    facts = {"queryId": new_id(), "status": "COMPLETED", "rowCount": result.row_count, "executionTimeMs": milliseconds}
    text = json.dumps(facts).removesuffix("}").encode() + b',"rows":' + result.json + b"}"
    return Response(text, media_type="application/json")


@router.get("/schema", summary="Columns and size of one dataset", responses=answers(404))
def read_dataset_schema(
    project_id: ProjectId, job_id: JobId, dataset_id: DatasetId, caller: DatasetReader, services: ServicesOf
) -> DatasetSchema:
    _check(services, caller.organization_id, (project_id, job_id), dataset_id)
    return dataset_schema(services.queries.table(caller.organization_id, dataset_id))
