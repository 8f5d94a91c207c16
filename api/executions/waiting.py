"""Executing a job and waiting for its end: `wait`, the header `Prefer`, and the first rows of the answer."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Header, Query, Response
from starlette.concurrency import run_in_threadpool

from api.executions.links import ExecutionLinks
from api.executions.schemas import EndedExecution, Submission, build_ended_execution, build_submission
from api.kit.auth import require
from api.kit.concurrency import QUERIES, WAITS
from api.kit.schemas import send_with_rows
from api.kit.services import Services
from core.data.sql.engine import ResultPage
from core.data.sql.service import DEFAULT_ROWS
from core.data.sql.service import Query as SqlQuery
from core.definitions.identity.api_keys import Identity
from core.errors import BadInput, SpindleError
from core.lifecycle.submission.planning import SubmitRequest
from core.lifecycle.submission.submit import submit

MAX_SECONDS = 60
FIRST_ROWS = "SELECT * FROM output"
_PREFERENCE = re.compile(r"\s*wait\s*=\s*\"?(\d{1,9})\"?\s*", re.IGNORECASE)
WAITED = {
    200: {"description": "The submission; with `wait`, the execution that has ended, also one that has failed."},
    202: {"model": Submission, "description": "The execution has not ended within `wait`."},
}


@dataclass(frozen=True, slots=True)
class Wait:
    """How long an answer waits for the end of an execution, in seconds, and how many of its rows it has."""

    seconds: int
    rows: int | None
    preferred: bool


def _parse_wait(
    wait: Annotated[
        int | None,
        Query(ge=0, le=MAX_SECONDS, description="Seconds to wait for the end of the execution; not at all by default."),
    ] = None,
    rows: Annotated[
        int | None,
        Query(
            ge=1,
            le=DEFAULT_ROWS,
            description="With `wait`, the answer has the first rows of the output. The key needs `datasets:read`.",
        ),
    ] = None,
    prefer: Annotated[
        str | None, Header(alias="Prefer", max_length=1024, description="`wait=30` is the same as `?wait=30`.")
    ] = None,
) -> Wait | None:
    """Return None where the answer does not wait. A preference beyond the limit is one of the limit."""
    preference = next(filter(None, map(_PREFERENCE.fullmatch, re.split("[,;]", prefer or ""))), None)
    if wait is not None:
        return Wait(wait, rows, preferred=False)
    if preference is not None:
        return Wait(min(int(preference[1]), MAX_SECONDS), rows, preferred=True)
    if rows is not None:
        raise BadInput("'rows' needs 'wait', the seconds to wait for them.", code="missing-field", path="wait")
    return None


WaitOf = Annotated[Wait | None, Depends(_parse_wait)]


async def submit_and_wait(
    services: Services, caller: Identity, links: ExecutionLinks, request: SubmitRequest, wait: Wait
) -> Response:
    """Submit the request and return the ended execution; with 202 its submission, if it has not ended in time."""
    if wait.rows is not None:
        require(caller, "datasets:read")
    with WAITS.acquire(caller.organization_id):
        execution = await run_in_threadpool(submit, services.database, services.settings, request)
        ended = await services.execution_waiter.wait(execution.id, wait.seconds)
    if ended:
        ids = (request.project_id, request.job_id, execution.id)
        response = await run_in_threadpool(_respond, services, caller, links, *ids, wait.rows)
    else:
        text = build_submission(execution).model_dump_json(by_alias=True)
        response = Response(text, status_code=202, media_type="application/json")
    if wait.preferred:
        response.headers["Preference-Applied"] = f"wait={wait.seconds}"
    return response


def _respond(
    services: Services,
    caller: Identity,
    links: ExecutionLinks,
    project_id: str,
    job_id: str,
    execution_id: str,
    rows: int | None,
) -> Response:
    execution = services.executions.get(caller, project_id, job_id, execution_id)
    page, problem = None, None
    if rows is not None and execution["dataset_id"] is not None:
        try:
            page = _load_rows(services, caller, execution["dataset_id"], execution_id, rows)
        except SpindleError as error:  # the execution has ended all the same
            problem = error.sentence
    record: EndedExecution = build_ended_execution(execution, links, problem)
    if page is None:
        return Response(record.model_dump_json(by_alias=True), media_type="application/json")
    return send_with_rows(record, "rows", page.json)


def _load_rows(services: Services, caller: Identity, dataset_id: str, execution_id: str, rows: int) -> ResultPage:
    query = SqlQuery(FIRST_ROWS, limit=rows, dataset_id=dataset_id, execution_id=execution_id)
    with QUERIES.acquire(caller.organization_id):
        return services.queries.run(caller, query).page
