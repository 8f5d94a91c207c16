"""Metrics of the service in the text format of Prometheus: https://prometheus.io/docs/instrumenting/exposition_formats/

Requests are counted by process of the API, whose number is the label `worker`. All else is read at the scrape.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import asdict
from datetime import datetime

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector
from sqlalchemy import func, select
from sqlalchemy.orm import Session
from sqlalchemy.pool import QueuePool

from api.kit.request_metrics import RequestMetrics
from api.kit.services import Services
from core.infra.pidfile import list_alive
from core.lifecycle.metrics.limits import list_limited
from core.lifecycle.usage.periods import Grain
from core.tables import Delivery, Execution, OutboxMessage, Schedule, Total, now
from core.tables.states import State


class ServiceCollector(Collector):
    """The present state of database, data folder and machine."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def collect(self) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
        at = now()
        with self._services.database.read() as session:
            yield from _collect_executions(session)
            yield from _collect_waiting(session, at)
            yield from _collect_limits(session)
        data = self._services.settings.data
        drivers = len(list_alive(data / "drivers"))
        yield GaugeMetricFamily("spindle_drivers", "Drivers of executions on this machine.", drivers)
        yield GaugeMetricFamily("spindle_disk_free_bytes", "Room for the data folder.", shutil.disk_usage(data).free)
        pool = self._services.database.engine.pool
        if isinstance(pool, QueuePool):
            used = GaugeMetricFamily("spindle_database_connections_used", "Connections in use, of this process.")
            used.add_metric((), pool.checkedout())
            yield used


def write_metrics(services: Services, requests: RequestMetrics) -> bytes:
    """Return all metrics as text; raises Unavailable when the database does not answer."""
    registry = CollectorRegistry()
    registry.register(ServiceCollector(services))
    return generate_latest(registry) + generate_latest(requests.registry)


def _collect_executions(session: Session) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
    states = [each for each in State if not each.terminal]
    query = select(Execution.state, func.count()).where(Execution.state.in_(states)).group_by(Execution.state)
    counts = dict(session.execute(query).tuples().all())
    gauge = GaugeMetricFamily("spindle_executions", "Executions that have not ended.", labels=("state",))
    for state in states:
        gauge.add_metric((state.value,), counts.get(state, 0))
    yield gauge
    sums = (func.sum(Total.executions), func.sum(Total.seconds), func.sum(Total.records), func.sum(Total.bytes_written))
    ended = session.execute(select(*sums).where(Total.grain == Grain.MONTH)).one()
    described = {
        "spindle_executions_ended": "Executions that have ended.",
        "spindle_execution_seconds": "Seconds that ended executions have run.",
        "spindle_rows_written": "Rows of ended executions.",
        "spindle_bytes_written": "Bytes that ended executions have written.",
    }
    for (name, meaning), value in zip(described.items(), ended, strict=True):
        yield CounterMetricFamily(name, meaning, float(value or 0))


def _collect_waiting(session: Session, at: datetime) -> Iterator[GaugeMetricFamily]:
    due = (OutboxMessage.processed_at.is_(None), OutboxMessage.available_at <= at)
    waiting, oldest = session.execute(select(func.count(), func.min(OutboxMessage.available_at)).where(*due)).one()
    yield GaugeMetricFamily("spindle_launches_waiting", "Launches that are due.", waiting)
    yield GaugeMetricFamily("spindle_launch_age_seconds", "Age of the oldest of them.", _get_age(oldest, at))
    late = session.scalar(select(func.min(Schedule.next_tick_at)).where(Schedule.enabled, Schedule.next_tick_at <= at))
    yield GaugeMetricFamily("spindle_schedule_late_seconds", "Delay of the tick that is most late.", _get_age(late, at))
    undelivered = session.scalar(select(func.count()).where(Delivery.state == "PENDING", Delivery.available_at <= at))
    yield GaugeMetricFamily("spindle_deliveries_waiting", "Deliveries to webhooks that wait.", undelivered or 0)


def _collect_limits(session: Session) -> Iterator[GaugeMetricFamily]:
    labels = ("organization", "limit")
    limit = GaugeMetricFamily("spindle_organization_limit", "Limits of organizations that have any.", labels=labels)
    used = GaugeMetricFamily("spindle_organization_used", "What counts against them.", labels=labels)
    for slug, found in list_limited(session):
        for name, value in asdict(found.limits).items():
            if value is not None:
                limit.add_metric((slug, name), value)
                used.add_metric((slug, name), found.used[name])
    yield from (limit, used)


def _get_age(since: datetime | None, at: datetime) -> float:
    return max((at - since).total_seconds(), 0.0) if since is not None else 0.0
