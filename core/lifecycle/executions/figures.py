"""Figures of a job's earlier executions, with which the checks of the next one are compared."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.orm import Session

from core.tables import Execution
from core.tables.states import State
from pipelines.contract.figures import Figures
from pipelines.planning.past import MOST

_COMPARING = ("maxDrop", "maxRise")


def list_past_figures(session: Session, execution: Execution) -> tuple[Figures, ...]:
    """Return the figures of the job's last completed executions, the newest first; empty where no check compares.

    Executions that do not publish, which a limit often cuts short, are neither compared nor compared with.
    """
    if not execution.publishes or not any(name in execution.pipeline_yaml for name in _COMPARING):
        return ()
    query = (
        select(Execution.metrics)
        .where(
            Execution.organization_id == execution.organization_id,
            Execution.job_id == execution.job_id,
            Execution.state == State.COMPLETED,
            Execution.publishes,
            Execution.metrics["figures"]["rows"].as_integer().is_not(None),
        )
        .order_by(Execution.completed_at.desc(), Execution.id.desc())
        .limit(MOST)
    )
    return tuple(Figures(**metrics["figures"]) for metrics in session.scalars(query))
