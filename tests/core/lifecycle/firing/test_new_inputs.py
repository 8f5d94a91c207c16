"""A job with `onNewInput` is executed once for the new versions of what it reads, whatever is executed beside it."""

from __future__ import annotations

from io import BytesIO

import pytest
from sqlalchemy import select

from core.data.datasets.models import DatasetCreate
from core.data.datasets.repository import DatasetRepository, NewVersion
from core.definitions.agents.models import AgentCreate
from core.definitions.agents.repository import AgentRepository
from core.definitions.jobs.models import JobUpdate
from core.definitions.jobs.repository import JobRepository
from core.errors import BadInput
from core.infra.storage.protocol import saves_key
from core.lifecycle.executions.reports import fail
from core.lifecycle.firing.new_inputs import NewInputs
from core.tables import Dataset, Execution, new_id
from tests.core.lifecycle.outlines.test_outlines import join
from tests.support.shop import PIPELINE, Shop

ON_NEW_INPUT = {"onNewInput": True}


@pytest.fixture
def launcher(shop: Shop) -> NewInputs:
    return NewInputs(shop.database, shop.settings)


def run_other(shop: Shop, job_id: str, rows: int = 1) -> Execution:
    """Execute another job of the shop and complete it."""
    own, shop.job_id = shop.job_id, job_id
    execution = shop.submit()
    shop.complete(execution, rows)
    shop.job_id = own
    return execution


def take_new(shop: Shop, job_id: str) -> list[Execution]:
    """Complete the executions of the job that have not ended, and return them."""
    with shop.database.read() as session:
        query = select(Execution).where(Execution.job_id == job_id, Execution.state == "PENDING")
        found = [*session.scalars(query)]
    for each in found:
        shop.complete(each)
    return found


def test_a_job_follows_its_input_once_for_each_version(shop: Shop, launcher: NewInputs) -> None:
    reader = shop.add_job("Reader", join("shop.books"), trigger=ON_NEW_INPUT).job_id
    launcher.execute_due()
    assert take_new(shop, reader) == []  # there is no table yet
    for _ in range(2):
        shop.complete(shop.submit())
        launcher.execute_due()
        launcher.execute_due()
        (execution,) = take_new(shop, reader)
        assert execution.trigger == "newInput"
        launcher.execute_due()
        assert take_new(shop, reader) == []
    shop.complete(shop.submit(publish=False))
    launcher.execute_due()
    assert take_new(shop, reader) == []


def upload(shop: Shop, name: str) -> None:
    with shop.database.write() as session:
        datasets = DatasetRepository(session, shop.organization_id)
        dataset = session.scalar(select(Dataset).where(Dataset.slug == name)) or datasets.create(
            DatasetCreate(name=name)
        )
        datasets.publish(dataset, None, NewVersion(new_id(), "parquet", [], 1, 100, []), path=None)


def test_uploads_are_followed_from_the_first_on(shop: Shop, launcher: NewInputs) -> None:
    by_path = "pipeline: [{stage: load_parquet, args: ['spindle://default/prices']}]"
    shop.add_job("Of none", join("nothing"), trigger=ON_NEW_INPUT)
    pipelines = {"By path": by_path, "By name": join("prices"), "Of both": join("default.prices", "default.lists")}
    path, name, both = (shop.add_job(each, text, trigger=ON_NEW_INPUT).job_id for each, text in pipelines.items())
    for uploaded, expected in (("prices", [1, 1, 0]), ("lists", [0, 0, 1]), ("prices", [1, 1, 1])):
        launcher.execute_due()
        assert [len(take_new(shop, each)) for each in (path, name, both)] == [0, 0, 0]
        upload(shop, uploaded)
        launcher.execute_due()
        assert [len(take_new(shop, each)) for each in (path, name, both)] == expected


def test_rows_that_a_job_has_set_aside_are_no_upload(shop: Shop, launcher: NewInputs) -> None:
    execution = shop.submit()
    folder = saves_key(shop.organization_id, execution.id, 1)
    shop.storage.put(f"{folder}/rejected/part-0.parquet", BytesIO())
    columns = [{"name": each, "type": "string"} for each in ("rejected_check", "rejected_reason")]
    shop.complete(execution, additional_metrics={"rejected": {"columns": columns, "rows": 1, "bytes": 10}})
    reader = shop.add_job("Reader", join("shop.books", "shop.books_rejected"), trigger=ON_NEW_INPUT).job_id
    launcher.execute_due()
    assert len(take_new(shop, reader)) == 1


def test_a_job_that_publishes_nothing_follows_its_input_once_too(shop: Shop, launcher: NewInputs) -> None:
    reader = shop.add_job("Reader", join("shop.books"), trigger=ON_NEW_INPUT, publish=False).job_id
    shop.complete(shop.submit())
    for number in (1, 0):
        launcher.execute_due()
        assert len(take_new(shop, reader)) == number


def test_a_job_with_partitions_follows_no_input(shop: Shop) -> None:
    country = {"values": ["it"], "parameter": "COUNTRY"}
    with pytest.raises(BadInput, match="which of its partitions"):
        shop.add_job("Reader", join("shop.books"), trigger=ON_NEW_INPUT, partitions=[country])
    reader = shop.add_job("Reader", join("shop.books"), trigger=ON_NEW_INPUT)
    with pytest.raises(BadInput, match="which of its partitions"):
        reader.change_job(partitions=[country])


def test_a_job_waits_for_all_that_are_executed_before_it(shop: Shop, launcher: NewInputs) -> None:
    prices = shop.add_job("Prices", PIPELINE).job_id
    reader = shop.add_job("Reader", join("shop.books", "shop.prices"), trigger=ON_NEW_INPUT).job_id
    run_other(shop, prices)
    launcher.execute_due()
    assert take_new(shop, reader) == []
    books = shop.submit()
    run_other(shop, prices)
    launcher.execute_due()
    assert take_new(shop, reader) == []
    shop.complete(books)
    launcher.execute_due()
    (execution,) = take_new(shop, reader)
    assert sorted(each.number for each in execution.inputs.values()) == [1, 2]


def test_a_chain_is_followed_and_a_circle_is_not(shop: Shop, launcher: NewInputs) -> None:
    second = shop.add_job("Second", PIPELINE).job_id
    run_other(shop, second)
    shop.complete(shop.submit())
    first = shop.add_job("First", join("shop.books", "shop.second"), trigger=ON_NEW_INPUT).job_id
    run_other(shop, first)
    with shop.database.write() as session:
        agent = AgentRepository(session, shop.organization_id)
        reader = agent.create(AgentCreate(name="Reader", pipeline_yaml=join("shop.first"))).id
        changes = JobUpdate(agent_id=reader, trigger=ON_NEW_INPUT)
        JobRepository(session, shop.organization_id).update(shop.project_id, second, changes)
    shop.complete(shop.submit())
    counts = []
    for _ in range(5):
        launcher.execute_due()
        counts.append(len(take_new(shop, first)) + len(take_new(shop, second)))
    assert counts[-2:] == [0, 0]
    assert sum(counts) == 2


def test_a_failure_is_not_repeated_for_the_same_versions(shop: Shop, launcher: NewInputs) -> None:
    following = shop.add_job("Reader", join("shop.books"), trigger=ON_NEW_INPUT)
    reader = following.job_id
    shop.complete(shop.submit())
    launcher.execute_due()
    with shop.database.read() as session:
        execution = session.scalars(select(Execution).where(Execution.job_id == reader)).one()
    fail(shop.database, execution.id, "Gone.")
    launcher.execute_due()
    assert take_new(shop, reader) == []
    shop.complete(shop.submit())
    following.change_job(enabled=False)
    launcher.execute_due()
    assert take_new(shop, reader) == []
    following.change_job(enabled=True)
    launcher.execute_due()
    assert len(take_new(shop, reader)) == 1


def test_a_job_follows_those_that_it_depends_on_without_reading_them(shop: Shop, launcher: NewInputs) -> None:
    later = shop.add_job("Later", PIPELINE, depends_on=["Books"], trigger=ON_NEW_INPUT).job_id
    for _ in range(2):
        shop.complete(shop.submit())
        launcher.execute_due()
        assert len(take_new(shop, later)) == 1
        launcher.execute_due()
        assert take_new(shop, later) == []


def test_a_version_that_the_pipeline_chooses_is_never_new(shop: Shop, launcher: NewInputs) -> None:
    shop.complete(shop.submit())
    reader = shop.add_job("Reader", join("shop.books@1"), trigger=ON_NEW_INPUT).job_id
    launcher.execute_due()
    assert len(take_new(shop, reader)) == 1
    shop.complete(shop.submit())
    launcher.execute_due()
    assert take_new(shop, reader) == []
