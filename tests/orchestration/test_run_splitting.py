"""Launches of several assets: independent ones become runs of their own, with the tags of their jobs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest
from dagster import AssetKey, DagsterInstance, DagsterRun, DagsterRunStatus, SubmitRunContext

from core.infra.database import open_database
from core.infra.migrations import migrate
from core.infra.settings import Settings
from core.lifecycle.outlines.outlines import load_outlines
from orchestration import run_splitting
from orchestration.dagster_run_internals import create_run
from orchestration.instance import prepare_instance
from orchestration.runs import CODE, build_run_job, locate_code_server
from tests.support.shop import PIPELINE, Shop, make_shop

READER = "pipeline: [{stage: load_parquet, args: ['spindle://shop/books']}]\n"
NO_WORKSPACE = cast(Any, None)  # the coordinator does not use it


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    """The jobs books and its reader, and toys and games, which read nothing."""
    monkeypatch.setenv("SPINDLE_DATA", str(tmp_path))
    migrate(Settings())
    monkeypatch.setenv("DAGSTER_HOME", str(prepare_instance(Settings(), 1)))
    with closing(open_database(Settings())) as database:
        shop = make_shop(Settings(), database)
        for name, pipeline in {"Reader": READER, "Toys": PIPELINE, "Games": PIPELINE}.items():
            shop.add_job(name, pipeline)
        yield shop


@pytest.fixture
def instance(shop: Shop) -> Iterator[DagsterInstance]:
    with DagsterInstance.get() as instance:
        yield instance


def launch(shop: Shop, instance: DagsterInstance, *slugs: str, **values: Any) -> tuple[str, list[DagsterRun]]:
    """Create a run as the UI does, and submit it; return the id of the submitted one, and all runs."""
    with shop.database.read() as session:
        outlines = [each for each in load_outlines(session) if each.slug in slugs]
    job = build_run_job(outlines)
    run = create_run(
        instance,
        job,
        "0b8f1f3e-5a5e-4ba9-9f0a-6d9ad7d4a0b3",
        config=values.get("config", {}),
        tags={"team": "shop", **values.get("tags", {})},
        assets={AssetKey(each.key) for each in outlines},
        repository=locate_code_server(shop.settings.data / "dagster"),
        module=CODE,
    )
    submitted = instance.run_coordinator.submit_run(SubmitRunContext(run, NO_WORKSPACE))
    for thread in threading.enumerate():
        if thread.name == "split run":
            thread.join(60)
    return submitted.run_id, [*instance.get_runs()]


def list_jobs(run: DagsterRun) -> list[str]:
    return sorted(key.path[-1] for key in run.asset_selection or ())


@pytest.mark.long
def test_independent_assets_become_runs_with_tags_of_their_jobs(shop: Shop, instance: DagsterInstance) -> None:
    config = {"ops": {"shop__games": {"config": {"limit": 3}}, "shop__toys": {"config": {"limit": 4}}}}
    run_id, runs = launch(shop, instance, "books", "reader", "toys", "games", config=config)
    found = {"/".join(list_jobs(run)): run for run in runs}
    assert found.keys() == {"books/reader", "toys", "games"}
    assert found["books/reader"].run_id == run_id
    tags = {"team": "shop", "spindle/project": "shop", "dagster/code_location": "spindle"}
    assert found["books/reader"].tags == tags
    assert found["toys"].tags == tags | {"spindle/job": "toys"}
    assert found["games"].tags == tags | {"spindle/job": "games"}
    assert {run.status for run in runs} == {DagsterRunStatus.QUEUED}
    assert found["toys"].run_config["ops"] == {"shop__toys": {"config": {"limit": 4}}}
    assert found["books/reader"].run_config["ops"] == {}
    steps = {step.partition(".")[0] for step in found["toys"].step_keys_to_execute or ()}
    assert steps == {"shop__toys"}


@pytest.mark.parametrize("slugs", [("toys",), ("books", "reader")])
def test_assets_that_belong_together_stay_one_run(
    shop: Shop, instance: DagsterInstance, slugs: tuple[str, ...]
) -> None:
    run_id, (run,) = launch(shop, instance, *slugs)
    assert (run.run_id, list_jobs(run)) == (run_id, [*slugs])
    assert run.tags["spindle/project"] == "shop"
    assert run.tags.get("spindle/job") == (slugs[0] if len(slugs) == 1 else None)


def test_a_launch_with_a_deleted_job_is_one_run(shop: Shop, instance: DagsterInstance) -> None:
    with shop.database.read() as session:
        outlines = [each for each in load_outlines(session) if each.slug in ("books", "toys")]
    job = build_run_job(outlines)
    shop.delete_job()
    run = create_run(
        instance, job, "0b8f1f3e-5a5e-4ba9-9f0a-6d9ad7d4a0b4", config={}, tags={},
        assets={AssetKey(each.key) for each in outlines},
        repository=locate_code_server(shop.settings.data / "dagster"), module=CODE,
    )  # fmt: skip
    instance.run_coordinator.submit_run(SubmitRunContext(run, NO_WORKSPACE))
    assert [each.status for each in instance.get_runs()] == [DagsterRunStatus.QUEUED]


def test_an_incomplete_launch_is_a_failed_run(
    shop: Shop, instance: DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    created: list[str] = []

    def create_one(*arguments: Any, **values: Any) -> DagsterRun:
        created.append("run")
        if len(created) > 1:
            raise OSError("no space left")
        return create_run(*arguments, **values)

    monkeypatch.setattr(run_splitting, "create_run", create_one)
    _, runs = launch(shop, instance, "toys", "games", "books")
    statuses = {tuple(list_jobs(run)): run.status for run in runs}
    assert statuses == {
        ("books",): DagsterRunStatus.QUEUED,
        ("books", "games", "toys"): DagsterRunStatus.FAILURE,
    }
