"""Rows that checks set aside: a dataset beside the job's, published together with its output."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import pytest
from sqlalchemy import select

from core.errors import BadInput
from core.infra.storage.protocol import saves_key
from core.lifecycle.executions.spec import list_past_figures
from core.tables import Dataset, DatasetVersion, Execution
from pipelines.contract.request import Figures
from tests.support.cases import each_case
from tests.support.shop import PIPELINE, Shop

COLUMNS = [{"name": name, "type": "string"} for name in ("title", "rejected_check", "rejected_reason")]
QUARANTINE = f"checks: [{{check: not_null, columns: [title], severity: quarantine}}]\n{PIPELINE}"
FIGURES = {"figures": {"rows": 10}}
COUNTRY = {"values": ["it", "de", "DE"], "parameter": "COUNTRY"}
NAME = {"values": ["it", "de"], "parameter": "NAME"}
DAY = {"by": "day", "start": "2026-01-01", "parameter": "DAY"}
COMPARING = f"{PIPELINE}checks: [{{check: row_count, maxDrop: 0.2}}]\n"


def complete(shop: Shop, execution: Execution, rows: int, **fields: Any) -> Execution:
    folder = saves_key(shop.organization_id, execution.id, execution.attempt)
    shop.storage.put(f"{folder}/rejected/part-0.parquet", BytesIO())
    rejected = {"columns": COLUMNS, "rows": rows, "bytes": 10}
    shop.complete(execution, additional_metrics={"rejected": rejected}, **fields)
    return shop.reload(execution)


def list_versions(shop: Shop) -> list[tuple[str | None, int, int | None]]:
    query = select(Dataset.slug, DatasetVersion.number, DatasetVersion.row_count).join(
        DatasetVersion, DatasetVersion.dataset_id == Dataset.id
    )
    with shop.database.read() as session:
        return sorted(tuple(row) for row in session.execute(query))  # type: ignore[misc]


def test_each_run_publishes_the_rows_that_went_aside_beside_its_own(shop: Shop) -> None:
    shop.write_pipeline(PIPELINE)
    for rows in (2, 0):
        assert complete(shop, shop.submit(), rows).state == "COMPLETED"
    names = {name for name, _, _ in list_versions(shop)}
    (rejected,) = (name for name in names if name and name.endswith("_rejected"))
    assert [row[1:] for row in list_versions(shop) if row[0] == rejected] == [(1, 2), (2, 0)]
    assert names == {rejected, rejected.removesuffix("_rejected")}


def test_nobody_else_may_write_to_the_dataset_of_rejected_rows(shop: Shop) -> None:
    shop.write_pipeline(QUARANTINE + "  - {stage: save_parquet, args: [books_rejected]}\n")
    with pytest.raises(BadInput) as refused:
        shop.submit()
    assert [detail.code for detail in refused.value.details] == ["duplicate-path"]
    shop.add_job("Books rejected")
    shop.write_pipeline(QUARANTINE)
    with pytest.raises(BadInput) as refused:
        shop.submit()
    assert [(detail.path, detail.code) for detail in refused.value.details] == [("checks[0]", "duplicate-path")]


@pytest.mark.parametrize("columns", [COLUMNS, COLUMNS[:1]], ids=["set aside", "of another's"])
def test_the_rows_that_went_aside_are_deleted_with_their_job(shop: Shop, columns: list[dict[str, str]]) -> None:
    shop.write_pipeline(PIPELINE)
    complete(shop, shop.submit(), 2)
    with shop.database.write() as session:
        (rejected,) = session.scalars(select(Dataset).where(Dataset.job_id.is_(None)))
        session.get_one(DatasetVersion, rejected.current_version_id).columns = columns
    shop.delete_job()
    assert [name for name, _, _ in list_versions(shop)] == ([] if columns == COLUMNS else [rejected.slug])


def test_a_failed_execution_publishes_neither(shop: Shop) -> None:
    shop.write_pipeline(PIPELINE)
    execution = shop.submit()
    rejected = {"columns": COLUMNS, "rows": 2, "bytes": 10}
    shop.report(execution, "FAILED", error_message="too many", additional_metrics={"rejected": rejected})
    assert list_versions(shop) == []


def test_an_execution_gets_the_figures_of_earlier_ones_of_its_job(shop: Shop) -> None:
    shop.write_pipeline(COMPARING)
    for rows in (10, 11):
        figures = {"rows": rows, "filled": {"title": 0.5}}
        shop.complete(shop.submit(), rows, additional_metrics={"figures": figures})
    shop.complete(shop.submit(limit=3), 3)  # a run with a limit reports none
    with shop.database.read() as session:
        past = list_past_figures(session, shop.submit())
    assert past == tuple(Figures(rows=rows, filled={"title": 0.5}) for rows in (11, 10))


@each_case(
    ("partitions", "earlier", "key", "rows"),
    [
        ([COUNTRY], ["it", "de", "it", "DE"], "it", [2, 0]),
        ([COUNTRY], ["it", "de", "it", "DE"], "de", [1]),
        ([DAY], ["2026-01-01", "2026-01-02"], "2026-01-01", [1, 0]),
        ([COUNTRY, DAY], ["it|2026-01-01", "de|2026-01-01", "it|2026-01-02"], "it|2026-01-03", [2, 0]),
        ([DAY, NAME], ["2026-01-01|it", "2026-01-01|de", "2026-01-02|it"], "2026-01-03|it", [2, 0]),
        ([COUNTRY, NAME], ["it|de", "de|de", "it|it", "it|de"], "it|de", [3, 0]),
    ],
)
def test_a_partition_is_compared_with_others_of_its_values(
    shop: Shop, partitions: list[dict[str, object]], earlier: list[str], key: str, rows: list[int]
) -> None:
    names = [str(each["parameter"]) for each in partitions]
    used = "".join(f"${{{name}}}" for name in names)
    job = shop.add_job("Split", COMPARING.replace("127.0.0.1/", f"127.0.0.1/{used}"))
    job.complete(job.submit(parameters=dict.fromkeys(names, "it")), additional_metrics=FIGURES)
    job.change_job(partitions=partitions)
    for number, each in enumerate(earlier):
        job.complete(job.submit(partition=each), additional_metrics={"figures": {"rows": number}})
    execution = job.submit(partition=key)
    with shop.database.read() as session:
        assert [each.rows for each in list_past_figures(session, execution)] == rows


def test_figures_are_looked_up_for_checks_that_compare(shop: Shop) -> None:
    shop.write_pipeline(PIPELINE)
    shop.complete(shop.submit(), 10, additional_metrics=FIGURES)
    with shop.database.read() as session:
        assert list_past_figures(session, shop.submit()) == ()
