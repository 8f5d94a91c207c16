"""Retrying: a new attempt of the same execution, with the pipeline and parameters that were frozen for it."""

from __future__ import annotations

from core.credentials.repository import Credentials, inject
from core.errors import Conflict
from core.executions.queries import Executions
from core.executions.slots import hold_project, place
from core.executions.states import Event, State, next_state
from core.executions.submit import PYTHON_AGENT
from core.executions.transitions import launch, move
from core.infra.database import Database
from core.infra.encryption import KeyRing
from core.infra.idempotency import IdempotencyKey, earlier, remember
from core.jobs.repository import JobRepository
from core.tables import Execution

FRESH = {
    "run_id": None,
    "claimed_at": None,
    "heartbeat_at": None,
    "started_at": None,
    "completed_at": None,
    "error_message": None,
    "spark_ui_url": None,
    "metrics": {},
    "progress": {},
}


def retry(
    database: Database,
    organization_id: str,
    project_id: str,
    job_id: str,
    execution_id: str,
    *,
    key_ring: KeyRing,
    idempotency_key: IdempotencyKey | None = None,
    queue: bool = False,
) -> Execution:
    """Begins the next attempt; whatever an earlier one still reports changes nothing.

    The values of its credentials are read anew. With `queue` it waits where the project has no slot free, in the order
    in which the executions were accepted. Raises NotFound, Conflict where it has not failed or cannot be executed any
    more, BadInput for a credential that is gone, TooMany when the project has ten executions already, or a full queue.
    """
    with database.write() as session:
        execution = Executions(session, organization_id).get(project_id, job_id, execution_id)
        hold_project(session, project_id)
        session.refresh(execution)
        if idempotency_key is not None:  # two calls at once meet at the project
            if earlier(session, idempotency_key) is not None:
                return execution
            remember(session, idempotency_key, execution.id)
        _check(execution)
        if not JobRepository(session, organization_id).get(project_id, job_id).enabled:
            raise Conflict("This job is disabled. Enable it to execute it.")
        waits = place(session, project_id, queue) is State.QUEUED
        ids = list(dict.fromkeys(execution.credentials.values()))
        inject(execution, Credentials(session, organization_id).chosen(ids, key_ring) if ids else (), key_ring)
        again = Event.REQUEUE if waits else Event.RETRY
        move(session, execution, again, attempt=execution.attempt + 1, **FRESH)
        if not waits:
            launch(session, execution)
        return execution


def _check(execution: Execution) -> None:
    state = State(execution.state)
    if next_state(state, Event.RETRY) is None:
        raise Conflict(f"Only an execution that has failed can be retried; this one is {state.shown}.")
    if not execution.pipeline_yaml:
        raise Conflict(PYTHON_AGENT)
