"""Sums of usage and costs over a period: whole months and days from stored totals, the rest from bills.

An execution counts in the period in which it ended, also after it was deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from sqlalchemy import Select, func, select, union_all
from sqlalchemy.orm import Session

from core.lifecycle.usage.bills import AMOUNTS
from core.lifecycle.usage.periods import Grain, Period
from core.lifecycle.usage.prices import get_rates
from core.tables import Agent, ExecutionBill, Job, Project, SharedValues, Total

GroupBy = Literal["project", "job", "pipeline"]
_GROUPS: Mapping[str, tuple[str, Any]] = {
    "project": ("project_id", Project),
    "job": ("job_id", Job),
    "pipeline": ("agent_id", Agent),
}
_KEYS = ("project_id", "job_id", "agent_id")


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
    """The sums of one project, job or pipeline. `name` is None when it was deleted."""

    id: str
    name: str | None
    sums: Sums


@dataclass(frozen=True, slots=True)
class Overview:
    """The sums of a period, in all and by group."""

    period: Period
    currency: str
    summary: Sums
    groups: Sequence[Group]


def summarize(
    session: Session,
    organization_id: str,
    period: Period,
    group_by: GroupBy = "project",
    *,
    project_id: str | None = None,
    job_id: str | None = None,
) -> Overview:
    """Sum up an organization, or one of its projects or jobs. Groups are ordered by falling cost."""
    summary, groups = Sums(), dict[str, Sums]()
    column, table = _GROUPS[group_by]
    filters = {"organization_id": organization_id, "project_id": project_id, "job_id": job_id}
    chosen = {name: value for name, value in filters.items() if value is not None}
    for row in session.execute(_select_rows(period, chosen)):
        keys, amounts = row[: len(_KEYS)], row[len(_KEYS) :]
        key = keys[_KEYS.index(column)]
        for sums in (summary, groups.setdefault(key, Sums())):
            sums.add(keys[_KEYS.index("job_id")], amounts)
    own = select(table.id, table.name).where(table.organization_id == organization_id)
    named: dict[str, str] = {key: name for key, name in session.execute(own)}
    ordered = sorted(groups, key=lambda key: (-add_costs(groups[key]), key))
    return Overview(
        period, get_rates(session).currency, summary, [Group(key, named.get(key), groups[key]) for key in ordered]
    )


def add_costs(sums: Sums) -> int:
    """Return the total cost in millionths."""
    return sum(amount for name, amount in sums.amounts.items() if name.endswith("_cost"))


def _select_rows(period: Period, chosen: Mapping[str, str]) -> Any:
    """Select the sums by job and agent in all parts of the period."""
    parts = period.split()
    selects = [_select_bills(chosen, start, end) for start, end in parts.edges]
    selects += [_select_totals(chosen, Grain.DAY, start, end) for start, end in parts.days]
    if parts.months:
        selects.append(_select_totals(chosen, Grain.MONTH, *parts.months))
    return union_all(*selects) if selects else _select_bills(chosen, period.start, period.end)


def _select_bills(chosen: Mapping[str, str], start: Any, end: Any) -> Select[Any]:
    within = (ExecutionBill.ended_at >= start, ExecutionBill.ended_at < end)
    shared = {name: SharedValues.content[name].as_string() for name in _KEYS}
    keys = {name: func.coalesce(column, getattr(ExecutionBill, name)) for name, column in shared.items()}
    query = _select_sums(ExecutionBill, {**keys, "organization_id": ExecutionBill.organization_id}, chosen)
    return query.outerjoin(SharedValues, SharedValues.id == ExecutionBill.shared_id).where(*within)


def _select_totals(chosen: Mapping[str, str], grain: Grain, start: Any, end: Any) -> Select[Any]:
    within = (Total.grain == grain, Total.start >= start, Total.start < end)
    keys = {name: getattr(Total, name) for name in ("organization_id", *_KEYS)}
    return _select_sums(Total, keys, chosen).where(*within)


def _select_sums(table: Any, columns: Mapping[str, Any], chosen: Mapping[str, str]) -> Select[Any]:
    keys = [columns[name].label(f"key_{name}") for name in _KEYS]  # PostgreSQL groups by the names of columns first
    sums = [func.sum(getattr(table, name)) for name in AMOUNTS]
    query = select(*keys, *sums).group_by(*(key.name for key in keys))
    return query.where(*(columns[name] == value for name, value in chosen.items()))
