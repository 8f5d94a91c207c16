"""What executions of an organization used and cost in a period: whole months and days from totals, the rest from bills.

An execution counts in the period in which it ended. What was deleted since still counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from sqlalchemy import Select, func, select, union_all
from sqlalchemy.orm import Session

from core.metrics.bills import AMOUNTS
from core.metrics.periods import Grain, Period
from core.metrics.prices import rates_of
from core.tables import Agent, ExecutionBill, Job, Project, Total

GroupBy = Literal["project", "job", "pipeline"]
_GROUPS: Mapping[str, tuple[str, Any]] = {
    "project": ("project_id", Project),
    "job": ("job_id", Job),
    "pipeline": ("agent_id", Agent),
}
_OF = ("project_id", "job_id", "agent_id")


@dataclass(slots=True)
class Sums:
    """Sums over executions, in the units of the bills."""

    amounts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(AMOUNTS, 0))
    jobs: set[str] = field(default_factory=set[str])

    def add(self, job_id: str, amounts: Iterable[int]) -> None:
        self.jobs.add(job_id)
        for name, amount in zip(AMOUNTS, amounts, strict=True):
            self.amounts[name] += int(amount)


@dataclass(frozen=True, slots=True)
class Group:
    """What one project, job or pipeline has in a period; `name` None when it was deleted."""

    id: str
    name: str | None
    sums: Sums


@dataclass(frozen=True, slots=True)
class Overview:
    period: Period
    currency: str
    summary: Sums
    groups: Sequence[Group]


def overview(
    session: Session,
    organization_id: str,
    period: Period,
    group_by: GroupBy = "project",
    *,
    project_id: str | None = None,
    job_id: str | None = None,
) -> Overview:
    """All of the organization, or of one project or job of it; groups with the highest costs first."""
    summary, groups = Sums(), dict[str, Sums]()
    column, table = _GROUPS[group_by]
    chosen = {"organization_id": organization_id, "project_id": project_id, "job_id": job_id}
    for row in session.execute(_rows(period, {name: value for name, value in chosen.items() if value is not None})):
        keys, amounts = row[: len(_OF)], row[len(_OF) :]
        key = keys[_OF.index(column)]
        for sums in (summary, groups.setdefault(key, Sums())):
            sums.add(keys[_OF.index("job_id")], amounts)
    own = select(table.id, table.name).where(table.organization_id == organization_id)
    named: dict[str, str] = {key: name for key, name in session.execute(own)}
    ordered = sorted(groups, key=lambda key: (-cost(groups[key]), key))
    return Overview(
        period, rates_of(session).currency, summary, [Group(key, named.get(key), groups[key]) for key in ordered]
    )


def cost(sums: Sums) -> int:
    """The whole cost in millionths."""
    return sum(amount for name, amount in sums.amounts.items() if name.endswith("_cost"))


def _rows(period: Period, chosen: Mapping[str, str]) -> Any:
    """A row for each job and agent of each part of the period."""
    parts = period.parts()
    selects = [_bills(chosen, start, end) for start, end in parts.edges]
    selects += [_totals(chosen, Grain.DAY, start, end) for start, end in parts.days]
    if parts.months:
        selects.append(_totals(chosen, Grain.MONTH, *parts.months))
    return union_all(*selects) if selects else _bills(chosen, period.start, period.end)


def _bills(chosen: Mapping[str, str], start: Any, end: Any) -> Select[Any]:
    within = (ExecutionBill.ended_at >= start, ExecutionBill.ended_at < end)
    return _summed(ExecutionBill, chosen).where(*within)


def _totals(chosen: Mapping[str, str], grain: Grain, start: Any, end: Any) -> Select[Any]:
    within = (Total.grain == grain, Total.start >= start, Total.start < end)
    return _summed(Total, chosen).where(*within)


def _summed(table: Any, chosen: Mapping[str, str]) -> Select[Any]:
    keys = [getattr(table, name) for name in _OF]
    sums = [func.sum(getattr(table, name)) for name in AMOUNTS]
    query = select(*keys, *sums).group_by(*keys)
    return query.where(*(getattr(table, name) == value for name, value in chosen.items()))
