"""Jobs that read a dataset with partitions: those with the same ones read their own key, others all of them."""

from __future__ import annotations

import pytest

from core.definitions.agents.models import AgentCreate
from core.definitions.agents.repository import AgentRepository
from core.definitions.jobs.models import JobCreate
from core.definitions.jobs.repository import JobRepository
from core.errors import Conflict
from core.lifecycle.submission.planning import SubmitRequest
from core.lifecycle.submission.submit import submit
from core.tables import Execution
from tests.core.lifecycle.backfills.test_partitions import DAYS, key, make, split_by_day
from tests.support.shop import Shop

READS = "pipeline:\n  - {stage: load_parquet, args: ['spindle://shop/books']}\n  - {stage: %s}\n"


def execute_reader(shop: Shop, name: str, partition: str | None, **dimension: object) -> Execution:
    with shop.database.write() as session:
        text = READS % "'filter', args: [\"title <> '${DAY}'\"]" if partition else READS % "limit, args: [1]"
        agent = AgentRepository(session, shop.organization_id).create(AgentCreate(name=name, pipeline_yaml=text))
        day = {"by": "day", "start": DAYS[0], "parameter": "DAY"} | dimension
        new = JobCreate.model_validate({"name": name, "agentId": agent.id, "partitions": [day] if partition else []})
        job = JobRepository(session, shop.organization_id).create(shop.project_id, new)
    request = SubmitRequest(
        organization_id=shop.organization_id, project_id=shop.project_id, job_id=job.id, partition=partition
    )
    return submit(shop.database, shop.settings, request)


def list_read(execution: Execution) -> list[str]:
    (read,) = execution.inputs.values()
    return sorted(read.locations)


def test_the_same_partitions_read_the_same_key(shop: Shop) -> None:
    split_by_day(shop)
    first, second = make(shop, DAYS[0]), make(shop, DAYS[1])
    both = sorted([key(first), key(second)])
    assert list_read(execute_reader(shop, "Same", DAYS[1])) == [key(second)]
    assert list_read(execute_reader(shop, "Whole", None)) == both
    assert list_read(execute_reader(shop, "Other zone", DAYS[1], timezone="Europe/Rome")) == both
    with pytest.raises(Conflict, match="has no partition") as refused:
        execute_reader(shop, "Too early", DAYS[2])
    assert refused.value.details[0].code == "partition-missing"
