"""Executions of partitions: what they replace, and which are there, missing or failed."""

from __future__ import annotations

from datetime import timedelta

import pytest

from core.definitions.identity.api_keys import Identity
from core.errors import BadInput, Conflict, SpindleError
from core.infra.storage.protocol import output_key
from core.lifecycle.backfills import service
from core.lifecycle.backfills.models import BackfillCreate
from core.lifecycle.executions.outputs import load_targets
from core.lifecycle.executions.reports import fail
from core.lifecycle.executions.spec import LaunchContext, build_spec
from core.lifecycle.firing.work import find_next_time
from core.tables import Backfill, Dataset, DatasetVersion, Execution, now
from tests.support.cases import each_case
from tests.support.shop import Shop

PIPELINE = """\
fetch: {url: "http://127.0.0.1/?day=${DAY}"}
pipeline:
  - {stage: extract, args: [{selector: h1, method: text, as: title}]}
"""
SCHEMA = '[{"name": "title", "type": "string"}, {"name": "day", "type": "string"}]'
TODAY = now().date()
DAYS = [(TODAY - timedelta(days=back)).isoformat() for back in (3, 2, 1)]


def split_by_day(shop: Shop, pipeline: str = PIPELINE, **changes: object) -> None:
    shop.write_pipeline(pipeline)
    day = {"by": "day", "start": DAYS[0], "parameter": "DAY"} | changes
    shop.change_job(partitions=[day])


def make(shop: Shop, day: str, rows: int = 3, schema: str = SCHEMA) -> Execution:
    execution = shop.submit(partition=day)
    shop.complete(execution, rows, output_dataset_schema=schema)
    return shop.reload(execution)


def load_current(shop: Shop) -> DatasetVersion:
    with shop.database.read() as session:
        dataset = session.query(Dataset).filter(Dataset.job_id == shop.job_id).one()
        return session.get_one(DatasetVersion, dataset.current_version_id)


def key(execution: Execution) -> str:
    return output_key(execution.organization_id, execution.id, execution.attempt)


def caller(shop: Shop) -> Identity:
    return Identity(shop.organization_id, "", frozenset())


def list_states(shop: Shop) -> list[tuple[str, str, int | None]]:
    with shop.database.read() as session:
        found = service.list_partitions(session, caller(shop), shop.project_id, shop.job_id)
    return [(each.key, each.state, each.rows) for each in found]


def test_an_execution_replaces_its_partition_alone(shop: Shop) -> None:
    split_by_day(shop)
    first, second = make(shop, DAYS[0]), make(shop, DAYS[1], rows=5)
    before = load_current(shop)
    assert (before.number, before.row_count, before.locations) == (2, 8, [key(first), key(second)])
    again = make(shop, DAYS[0], rows=1)
    after = load_current(shop)
    assert (after.number, after.row_count) == (3, 6)
    assert set(after.locations) == {key(again), key(second)}
    assert sorted(after.files or ()) == sorted([f"{key(again)}/part-0", f"{key(second)}/part-0"])
    assert {name: part.execution_id for name, part in after.partitions.items()} == {
        DAYS[0]: again.id,
        DAYS[1]: second.id,
    }
    assert (first.parameters["DAY"], first.trigger) == (DAYS[0], "rest")


def test_columns_that_no_partition_has_any_more_go(shop: Shop) -> None:
    split_by_day(shop)
    extra = '[{"name": "title", "type": "string"}, {"name": "price", "type": "double"}]'
    for day, schema, names in (
        (DAYS[0], extra, ["title", "price"]),
        (DAYS[1], '[{"name": "title", "type": "string"}]', ["title", "price"]),
        (DAYS[0], '[{"name": "title", "type": "string"}]', ["title"]),
    ):
        make(shop, day, schema=schema)
        assert [column["name"] for column in load_current(shop).columns] == names


def test_partitions_of_another_kind_begin_anew(shop: Shop) -> None:
    make_all = shop.submit()
    shop.complete(make_all)
    split_by_day(shop)
    make(shop, DAYS[0])
    assert len(load_current(shop).locations) == 1
    split_by_day(shop, timezone="Europe/Rome")
    make(shop, DAYS[1])
    assert [*load_current(shop).partitions] == [DAYS[1]]


def test_an_execution_of_other_partitions_replaces_nothing(shop: Shop) -> None:
    split_by_day(shop)
    failed, running = (shop.submit(partition=day) for day in DAYS[:2])
    fail(shop.database, failed.id, "It broke.")
    split_by_day(shop, timezone="Europe/Rome")
    make(shop, DAYS[2])
    with pytest.raises(Conflict, match="partitions of the job have changed"):
        shop.retry(failed)
    shop.complete(running, output_dataset_schema=SCHEMA)
    assert "partitions of the job have changed" in (shop.reload(running).error_message or "")
    assert [*load_current(shop).partitions] == [DAYS[2]]


def test_a_partition_has_one_execution_at_a_time(shop: Shop) -> None:
    split_by_day(shop)
    running = shop.submit(partition=DAYS[0])
    shop.submit(partition=DAYS[1])
    with pytest.raises(Conflict, match=running.id) as refused:
        shop.submit(partition=DAYS[0], queue=True)
    assert refused.value.details[0].code == "partition-running"
    fail(shop.database, running.id, "It broke.")
    other = shop.submit(partition=DAYS[0])
    with pytest.raises(Conflict, match=other.id):
        shop.retry(running)


def test_the_driver_adds_the_partitions_column_in_the_types_of_the_others(shop: Shop) -> None:
    split_by_day(shop)
    make(shop, DAYS[0])
    execution, again = shop.submit(partition=DAYS[1]), shop.submit(partition=DAYS[0])
    with shop.database.read() as session:
        assert load_targets(session, shop.storage, again)[""].rows == 3
        targets = load_targets(session, shop.storage, execution)
    spec = build_spec(shop.settings, shop.storage, execution, LaunchContext(targets=targets))
    assert (spec.partition, spec.targets[""].fits_types) == ({"day": DAYS[1]}, True)
    assert spec.targets[""].rows is None  # the others stay
    changed = SCHEMA.replace("string", "bigint")
    shop.complete(execution, output_dataset_schema=changed)
    assert "'title' has become string" in (shop.reload(execution).error_message or "")


def test_partitions_are_present_missing_running_or_failed(shop: Shop) -> None:
    split_by_day(shop)
    make(shop, DAYS[0])
    broken = shop.submit(partition=DAYS[0])
    fail(shop.database, broken.id, "It broke.")
    shop.submit(partition=DAYS[1])
    shop.complete(shop.submit(partition=DAYS[2], publish=False))
    assert list_states(shop) == [(DAYS[0], "FAILED", 3), (DAYS[1], "RUNNING", None), (DAYS[2], "MISSING", None)]
    make(shop, DAYS[0], rows=4)
    assert list_states(shop)[0] == (DAYS[0], "PRESENT", 4)


@each_case(
    ("submission", "code"),
    [
        ({}, "partition-required"),
        ({"partition": "2020-01-01"}, "unknown-partition"),
        ({"partition": TODAY.isoformat()}, "partition-open"),
        ({"partition": DAYS[0], "parameters": {"DAY": DAYS[1]}}, "invalid-value"),
    ],
)
def test_an_execution_names_a_partition(shop: Shop, submission: dict[str, object], code: str) -> None:
    split_by_day(shop)
    with pytest.raises(BadInput) as refused:
        shop.submit(**submission)
    assert refused.value.details[0].code == code


def test_all_parameters_of_a_partition_name_it(shop: Shop) -> None:
    split_by_day(shop)
    assert shop.submit(parameters={"DAY": DAYS[0]}).partition == DAYS[0]


@each_case(
    ("text", "reason"),
    [
        ("output: {mode: append}\n", "mode append"),
        ("output: {format: csv}\n", "not csv"),
        ("output: {partitionBy: [title]}\n", "leave partitionBy out"),
        ("output: {path: 's3://goods/days'}\n", "a path in a bucket"),
        ("spindle: {incremental: true}\n", "mode append"),
        ("", "column 'title'"),
        ("", "DAY"),
    ],
)
def test_pipelines_that_cannot_write_one_partition_are_refused(shop: Shop, text: str, reason: str) -> None:
    pipeline = PIPELINE + text
    if "title" in reason:
        pipeline = pipeline.replace("as: title", "as: DAY").replace("DAY}]", "Day}]")
        reason = "column 'day'"
    if reason == "DAY":
        pipeline = pipeline.replace("${DAY}", "1")
    split_by_day(shop, pipeline)
    with pytest.raises(SpindleError, match=reason) as refused:
        shop.submit(partition=DAYS[0])
    assert refused.value.status < 500


def advance(shop: Shop, backfill_id: str) -> str:
    service.advance_backfills(shop.database, shop.settings)
    with shop.database.read() as session:
        return session.get_one(Backfill, backfill_id).state


def create(shop: Shop, **fields: object) -> str:
    with shop.database.write() as session:
        new = BackfillCreate.model_validate(fields)
        return service.create(session, caller(shop), shop.project_id, shop.job_id, new).backfill.id


def list_executions(shop: Shop, backfill_id: str) -> list[Execution]:
    with shop.database.read() as session:
        return session.query(Execution).filter(Execution.backfill_id == backfill_id).order_by(Execution.id).all()


def test_a_backfill_executes_each_partition_once(shop: Shop) -> None:
    start = (TODAY - timedelta(days=30)).isoformat()
    split_by_day(shop, start=start)
    held = shop.submit(partition=DAYS[2])
    backfill = create(shop)
    seen = 0
    while advance(shop, backfill) == "RUNNING":
        open_ = [each for each in list_executions(shop, backfill) if each.state in ("PENDING", "QUEUED")]
        seen = max(seen, len(open_))
        assert shop.active() <= 10
        for each in open_:
            if each.state == "PENDING":
                shop.complete(each, output_dataset_schema=SCHEMA)
        if not open_:
            shop.complete(held, output_dataset_schema=SCHEMA)
    done = list_executions(shop, backfill)
    assert seen == service.MAX_OPEN
    assert len({each.partition for each in done}) == len(done) == 30
    assert len(load_current(shop).locations) == 30


def test_a_backfill_ends_with_what_could_not_be_executed(shop: Shop) -> None:
    split_by_day(shop)
    make(shop, DAYS[0])
    backfill = create(shop, only="missing")
    assert advance(shop, backfill) == "RUNNING"
    first, second = list_executions(shop, backfill)
    assert [first.partition, second.partition] == DAYS[1:]
    shop.complete(first, output_dataset_schema=SCHEMA)
    fail(shop.database, second.id, "It broke.")
    assert advance(shop, backfill) == "FAILED"
    repeated = create(shop, only="failed")
    split_by_day(shop, PIPELINE.replace("${DAY}", "1"))
    advance(shop, repeated)
    assert advance(shop, repeated) == "FAILED"
    with shop.database.read() as session:
        assert "DAY" in session.get_one(Backfill, repeated).refused[DAYS[2]]


def test_a_backfill_waits_while_its_job_is_disabled(shop: Shop) -> None:
    split_by_day(shop)
    backfill = create(shop)
    for switch in (shop.change_job, shop.change_project):
        switch(enabled=False)
        assert (advance(shop, backfill), list_executions(shop, backfill)) == ("RUNNING", [])
        with shop.database.read() as session:
            assert find_next_time(session, now()) is None
        switch(enabled=True)
    advance(shop, backfill)
    assert [each.partition for each in list_executions(shop, backfill)] == DAYS


def test_a_cancelled_backfill_ends_its_executions(shop: Shop) -> None:
    split_by_day(shop)
    backfill = create(shop, **{"from": DAYS[1]})
    advance(shop, backfill)
    with shop.database.write() as session:
        found = service.cancel(session, caller(shop), shop.project_id, shop.job_id, backfill)
    assert (found.backfill.state, found.counts) == ("CANCELLED", {"CANCELLED": 2})
    assert advance(shop, backfill) == "CANCELLED"
    assert shop.active() == 0
    assert [state for _, state, _ in list_states(shop)] == ["MISSING"] * 3


@each_case(
    ("fields", "code"),
    [
        ({"from": DAYS[0], "keys": [DAYS[0]]}, "invalid-value"),
        ({"keys": ["2020-01-01"]}, "unknown-partition"),
        ({"from": "2031-01-01"}, "unknown-partition"),
        ({"only": "failed"}, "unknown-partition"),
    ],
)
def test_a_backfill_of_no_partitions_is_refused(shop: Shop, fields: dict[str, object], code: str) -> None:
    split_by_day(shop)
    with pytest.raises(BadInput) as refused:
        create(shop, **fields)
    assert refused.value.details[0].code == code
