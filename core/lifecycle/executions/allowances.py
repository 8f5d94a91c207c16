"""The daily budget of an organization for language models, of which each execution may spend the rest."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from core.infra.settings.pipelines import ModelSettings
from core.tables import Execution, now
from pipelines.models.budget import Allowance


def find_allowance(
    session: Session, settings: ModelSettings, organization_id: str, at: datetime | None = None
) -> Allowance | None:
    """Return the rest of an organization's budget after the executions of the day (UTC); None without a limit.

    Executions that run at the same time may each spend the rest.
    """
    limits = settings.daily_calls, settings.daily_tokens, settings.daily_cost
    if limits == (None, None, None):
        return None
    spent = Execution.progress["model"]
    tokens = spent["tokensIn"].as_integer() + spent["tokensOut"].as_integer()
    midnight = (at or now()).replace(hour=0, minute=0, second=0, microsecond=0)
    sums = select(func.sum(spent["calls"].as_integer()), func.sum(tokens), func.sum(spent["cost"].as_float())).where(
        Execution.organization_id == organization_id, Execution.created_at >= midnight
    )
    calls, tokens_used, cost = session.execute(sums).one()
    return Allowance(
        calls=None if limits[0] is None else max(0, limits[0] - (calls or 0)),
        tokens=None if limits[1] is None else max(0, limits[1] - (tokens_used or 0)),
        cost=None if limits[2] is None else max(0.0, limits[2] - (cost or 0.0)),
    )
