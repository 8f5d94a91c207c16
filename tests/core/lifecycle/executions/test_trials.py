"""Executions that do not publish: their rows are kept apart, and nothing else of the job changes."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sqlalchemy import select

from core.data.datasets.collector import FileCollector
from core.data.datasets.repository import DatasetRepository
from core.data.sql.catalog import Catalog
from core.errors import BadInput
from core.lifecycle.executions.spec import build_spec, list_past_figures
from core.tables import Dataset, DatasetVersion, Execution, FileRemoval, Job, now
from core.tables.states import State
from tests.support.cases import each_case
from tests.support.shop import PIPELINE, Shop

SAVE = PIPELINE + "  - {stage: save_csv, args: ['spindle://shop/copy', overwrite]}\n"
OUTPUTS = {
    "append": "output: {path: 'spindle://shop/all', mode: append}\n",
    "merge": "output: {mode: merge, keys: [title]}\n",
    "delta": "output: {format: delta, mode: append}\n",
    "iceberg": "output: {format: iceberg}\n",
    "history": "output: {mode: history, keys: [title]}\n",
}


def load_version(shop: Shop, execution: Execution) -> tuple[Dataset, DatasetVersion]:
    with shop.database.read() as session:
        dataset = session.get_one(Dataset, shop.reload(execution).dataset_id)
        return dataset, session.get_one(DatasetVersion, dataset.current_version_id)


def test_the_rows_are_a_dataset_of_their_own(shop: Shop) -> None:
    published = shop.submit()
    shop.complete(published, rows=20)
    trial = shop.submit(publish=False, limit=3)
    assert shop.complete(trial, rows=3) is State.COMPLETED
    dataset, version = load_version(shop, trial)
    assert (dataset.schema_slug, dataset.slug, version.row_count) == ("shop", f"books@{trial.id}", 3)
    assert load_version(shop, published)[1].row_count == 20
    with shop.database.read() as session:
        job = session.get_one(Job, shop.job_id)
        assert job.output_dataset_id == shop.reload(published).dataset_id
        catalog = Catalog(session, shop.organization_id)
        assert [table.name for table in catalog.load_tables()] == ["books"]
        assert [table.row_count for table in catalog.find_by_names([dataset.slug])] == [3]
        assert [each.dataset.slug for each in DatasetRepository(session, shop.organization_id).list()] == ["books"]


@each_case("output", OUTPUTS.values())
def test_no_mode_and_no_format_changes_the_table(shop: Shop, output: str) -> None:
    shop.write_pipeline(PIPELINE + output)
    trial = shop.submit(publish=False)
    assert [(each.path, each.format, each.mode) for each in trial.outputs.values()] == [(None, "parquet", "overwrite")]
    assert shop.complete(trial) is State.COMPLETED
    assert load_version(shop, trial)[0].slug == f"books@{trial.id}"
    with shop.database.read() as session:
        assert all("@" in slug for slug in session.scalars(select(Dataset.slug)))
        assert DatasetRepository(session, shop.organization_id).find_at("spindle://shop/all") is None


def test_saves_and_known_pages_are_left_out(shop: Shop) -> None:
    shop.write_pipeline(SAVE)
    trial = shop.submit(publish=False)
    assert [step.name for step in trial.steps] == ["fetch", "extract", "output"]
    assert list(trial.outputs) == [""]
    spec = build_spec(shop.settings, shop.storage, trial)
    assert (spec.publishes, spec.output.known_pages) == (False, None)


def test_a_pipeline_that_reads_what_it_saves_cannot_be_tried(shop: Shop) -> None:
    shop.write_pipeline(SAVE + "  - {stage: load_csv, args: [{path: 'spindle://shop/copy'}]}\n")
    with pytest.raises(BadInput) as refused:
        shop.submit(publish=False)
    assert "load_csv reads what save_csv writes" in str(refused.value.details)
    shop.submit()


def test_checks_do_not_compare_with_a_trial(shop: Shop) -> None:
    shop.write_pipeline(PIPELINE + "checks: [{check: row_count, maxDrop: 0.5}]\n")
    figures = {"figures": {"rows": 3, "filled": {}}}
    shop.complete(shop.submit(publish=False, limit=3), additional_metrics=figures)
    later = shop.submit()
    with shop.database.read() as session:
        assert list_past_figures(session, later) == ()
    shop.complete(later, additional_metrics={"figures": {"rows": 20, "filled": {}}})
    with shop.database.read() as session:
        assert [each.rows for each in list_past_figures(session, shop.submit())] == [20]
        assert list_past_figures(session, shop.submit(publish=False)) == ()


def test_the_job_chooses_and_an_execution_may_choose_otherwise(shop: Shop) -> None:
    assert shop.submit(limit=3).publishes
    shop.change_job(publish=False)
    assert [shop.submit().publishes, shop.submit(publish=True).publishes] == [False, True]


def test_trials_are_deleted_after_a_week(shop: Shop) -> None:
    published, trial = shop.submit(), shop.submit(publish=False)
    for execution in (published, trial):
        shop.complete(execution)
    location = load_version(shop, trial)[1].locations[0]
    collector = FileCollector(shop.settings, shop.database, shop.storage)
    collector.collect(now() + timedelta(days=6))
    assert load_version(shop, trial)[0].slug == f"books@{trial.id}"
    collector.collect(now() + timedelta(days=8))
    with shop.database.read() as session:
        assert [each.slug for each in session.scalars(select(Dataset))] == ["books"]
        assert [each.location for each in session.scalars(select(FileRemoval))] == [location]
