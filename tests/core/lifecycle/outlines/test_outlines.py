"""Outlines of jobs: steps, columns, checks, lineage and obstacles."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import select, update

from core.data.datasets.models import DatasetCreate
from core.data.datasets.repository import DatasetRepository
from core.definitions.agents.plan_outline import VERSION
from core.errors import NotFound
from core.infra.database import execute_update
from core.lifecycle.executions.parameters import Value
from core.lifecycle.outlines.outlines import (
    JobOutline,
    OutlineLoader,
    find_cycle_warnings,
    load_outline,
    load_outlines,
    store_missing_outlines,
)
from core.lifecycle.outlines.parameters import ParameterOutline
from core.tables import Agent, Project
from tests.support.shop import Shop

CRAWL = """
pipeline:
  - {stage: wget, args: ["http://shop/"]}
  - {stage: wgetJoin, args: ["a.item"]}
  - {stage: extract, args: [{selector: h1, method: text, as: title}]}
  - {stage: extract, args: [{selector: .price, method: price, as: price}]}
  - {stage: save_csv, args: ["${OUTPUT_PRICES}"]}
checks:
  - {check: row_count, min: 1}
  - {check: not_null, columns: [title], severity: warn}
  - {check: not_null, columns: [price]}
"""
UNKNOWN = "01a1fdfc-0000-7000-8000-000000000000"


def load_csv(path: str) -> str:
    return f"pipeline: [{{stage: load_csv, args: ['{path}']}}]"


def outline(shop: Shop, job_id: str) -> JobOutline:
    """Return the outline, which must be the same alone and among all."""
    with shop.database.read() as session:
        alone = load_outline(session, job_id)
        assert {each.job_id: each for each in load_outlines(session)}[job_id] == alone
    return alone


def test_an_outline_has_the_steps_columns_and_checks_of_the_plan(shop: Shop) -> None:
    found = outline(shop, shop.add_job("Prices", CRAWL, description="All prices.").job_id)
    assert found.key == ("shop", "prices")
    assert [step.name for step in found.steps] == [
        "wget",
        "wgetJoin",
        "extract",
        "extract_2",
        "save_csv",
        "write_output",
    ]
    assert [step.key for step in found.steps][:2] == ["s01_wget", "s02_wgetJoin"]
    assert found.steps[2].columns == (("title", "string"),)
    assert found.columns == (("title", "string"), ("price", "double"))
    assert not found.has_open_columns
    assert [(check.name, check.path, check.severity) for check in found.checks] == [
        ("row_count", "checks[0]", "error"),
        ("not_null", "checks[1]", "warn"),
        ("not_null_2", "checks[2]", "error"),
    ]
    assert (found.name, found.description, found.agent_revision) == ("Prices", "All prices.", 1)
    assert found.pipeline_yaml == CRAWL
    assert found.obstacle is None


SOURCES = """
fetch: {url: "https://${HOST}/list?token=secret"}
pipeline:
  - {stage: extract, args: [{selector: h1, as: title, description: The title}]}
  - {stage: wget, args: ["http://${NOWHERE}/"]}
  - stage: sql_query
    args: ["SELECT r.title, p.price, u.a FROM rows r JOIN p USING (title) JOIN u USING (title)",
           {dialect: trino, tables: {p: shop.prices, u: "${UPLOAD}"}}]
  - stage: unionByName
    args:
      - {format: csv, path: "s3://raw/a/*.csv"}
      - {format: csv, path: "s3://raw/b.csv"}
      - {format: csv, path: lists/kept.csv}
"""


def test_sources_that_no_job_writes_are_named_once_each(shop: Shop) -> None:
    shop.add_job("Prices", CRAWL)
    with shop.database.write() as session:
        datasets = DatasetRepository(session, shop.organization_id)
        upload = datasets.create(DatasetCreate(name="Old lists", project_id=shop.project_id))
    values = {"HOST": "shop.example", "UPLOAD": "shop.old_lists"}
    found = outline(shop, shop.add_job("Lists", SOURCES, parameters=values, owners=["team:lists"]).job_id)
    site, raw = ("web site", "shop.example"), ("bucket of files", "raw")
    old, kept = ("uploaded dataset", "shop", "old_lists"), ("uploaded dataset", "shop", "lists", "kept.csv")
    assert {each.key: each.address for each in found.sources} == {
        site: "https://shop.example",
        raw: "s3://raw",
        old: "spindle://shop/old_lists",
        kept: "spindle://shop/lists/kept.csv",
    }
    assert (found.inputs, found.owners) == ((("shop", "prices"),), ("team:lists",))
    columns = {each.name: each for each in found.lineage}
    assert (site, "h1") in columns["title"].sources
    assert {*columns["price"].sources} == {(each, "price") for each in (("shop", "prices"), raw, kept)}
    assert {*columns["a"].sources} == {(each, "a") for each in (old, raw, kept)}
    read = outline(shop, shop.add_job("Reader", CRAWL, input_dataset_id=upload.id).job_id)
    assert {each.key for each in read.sources} == {("web site", "shop"), old}


def test_a_parameter_has_the_type_of_its_value_in_the_job_or_project(shop: Shop) -> None:
    names = ("DAY", "JOB", "PROJECT", "TEXT:-3", "BOTH:-a", "OPEN", "RUN_DATE:-today", "OUTPUT_A")
    pages = "".join(f"  - {{stage: wgetJoin, args: ['a.${{{name}}}']}}\n" for name in names)
    pipeline = f"fetch: {{url: 'http://shop/${{BOTH:-b}}'}}\npipeline:\n{pages}"
    values = {"JOB": 3, "PROJECT": {"no": "value"}, "DAY": "2026-06-01"}
    days: Any = [{"by": "day", "start": "2026-06-01", "parameter": "DAY"}]
    shop.change_project(parameters={"JOB": "of all", "PROJECT": True})
    found = outline(shop, shop.add_job("Pages", pipeline, parameters=values, partitions=days).job_id)
    assert {each.name: (each.type, each.default) for each in found.parameters} == {
        "JOB": (int, 3),
        "PROJECT": (bool, True),
        "TEXT": (None, "3"),
        **dict.fromkeys(("BOTH", "OPEN", "RUN_DATE", "OUTPUT_A"), (None, None)),
    }


def test_a_value_is_converted_to_the_type_of_its_parameter_where_the_pipeline_gets_the_same_text() -> None:
    def convert(kind: type[Value] | None, *values: Value) -> list[Value]:
        return [ParameterOutline("A", "", None, kind).convert(value) for value in values]

    assert convert(int, "5", "05", "5.0", "a", 2, '"5"') == [5, "05", "5.0", "a", 2, '"5"']
    assert convert(float, "0.5", "5", "NaN") == [0.5, "5", "NaN"]
    assert convert(bool, "true", "1", "True") == [True, "1", "True"]
    assert convert(str, 5, True, "a") == ["5", "true", "a"]
    assert convert(None, 5, "5") == [5, "5"]


def test_unknown_jobs_have_no_outline(shop: Shop) -> None:
    with shop.database.read() as session:
        assert load_outlines(session, [UNKNOWN]) == []
        with pytest.raises(NotFound):
            load_outline(session, UNKNOWN)


def test_paths_of_other_jobs_are_inputs(shop: Shop) -> None:
    crawl = shop.add_job("Prices", CRAWL).job_id
    by_name = shop.add_job("By name", load_csv("${OUTPUT_PRICES}")).job_id
    by_table = shop.add_job("By table", load_csv("spindle://shop/prices")).job_id
    by_parameter = shop.add_job("By parameter", load_csv("${SOURCE}"), parameters={"SOURCE": "output_prices"}).job_id
    elsewhere = shop.add_job("Elsewhere", load_csv("${UNKNOWN}/x.csv")).job_id
    assert outline(shop, crawl).inputs == outline(shop, elsewhere).inputs == ()
    for each in (by_name, by_table, by_parameter):
        assert outline(shop, each).inputs == (("shop", "prices"),)


def join(*tables: str) -> str:
    """Return a pipeline that reads datasets by these names."""
    named = ", ".join(f"t{number}: '{each}'" for number, each in enumerate(tables))
    selected = ", ".join(f"t{number}" for number in range(len(tables)))
    return f"pipeline: [{{stage: sql_query, args: ['SELECT 1 AS a FROM {selected}', {{tables: {{{named}}}}}]}}]"


@pytest.mark.parametrize(
    "name", ["prices", "shop.prices", "Shop.Prices@3", "spindle://shop/prices", "output_prices", "${SOURCE}@1"]
)
def test_datasets_that_sql_names_are_inputs(shop: Shop, name: str) -> None:
    shop.add_job("Prices", CRAWL)
    save_to(shop, "spindle://shop/output_prices")
    joined = shop.add_job(
        "Joined", join(name, "shop.books", "nothing", "${OPEN}"), parameters={"SOURCE": "prices"}
    ).job_id
    assert sorted(outline(shop, joined).inputs) == [("shop", "books"), ("shop", "prices")]


def save_to(shop: Shop, path: str) -> None:
    """Publish the dataset of a save."""
    with shop.database.write() as session:
        project = session.get_one(Project, shop.project_id)
        DatasetRepository(session, shop.organization_id).ensure_of_path(project, path, "csv")


def test_a_bare_name_is_the_own_projects_job(shop: Shop) -> None:
    readers: list[str] = []
    for each in (shop, shop.add_project("Other")):
        each.add_job("Prices", agent_id=None)
        readers.append(each.add_job("R", join("prices")).job_id)
    assert [outline(shop, each).inputs for each in readers] == [(("shop", "prices"),), (("other", "prices"),)]


def test_a_cycle_of_names_is_broken_and_a_job_may_name_its_own_table(shop: Shop) -> None:
    first = shop.add_job("First", join("second", "first")).job_id
    second = shop.add_job("Second", join("first")).job_id
    assert [outline(shop, each).inputs for each in (first, second)] == [(("shop", "second"),), ()]
    assert len(outline(shop, second).notes) == 1
    third = shop.add_job("Third", join("first")).job_id
    with shop.database.read() as session:
        warnings = find_cycle_warnings(session, shop.organization_id, job_ids=[first, second, third])
        alone = find_cycle_warnings(session, shop.organization_id, job_ids=[third])
        foreign = find_cycle_warnings(session, "another", job_ids=[first])
    (warning,) = warnings
    assert "The job 'First' reads the table of 'Second', which reads that of 'First'" in warning
    assert (alone, foreign) == ([], [])


def test_a_cycle_is_broken_at_one_place_with_a_note(shop: Shop) -> None:
    first = shop.add_job("First", load_csv("spindle://shop/second")).job_id
    second = shop.add_job("Second", load_csv("spindle://shop/third")).job_id
    third = shop.add_job("Third", load_csv("spindle://shop/first")).job_id
    assert [outline(shop, each).inputs for each in (first, second, third)] == [
        (("shop", "second"),),
        (("shop", "third"),),
        (),
    ]
    (note,) = outline(shop, third).notes
    assert "First" in note
    assert outline(shop, first).notes == ()


def test_a_job_that_reads_its_own_output_does_not_depend_on_itself(shop: Shop) -> None:
    own = shop.add_job("Own", load_csv("spindle://shop/own")).job_id
    assert (outline(shop, own).inputs, outline(shop, own).notes) == ((), ())


def test_the_second_organization_puts_slugs_in_front(shop: Shop, request: pytest.FixtureRequest) -> None:
    assert outline(shop, shop.job_id).key == ("shop", "books")
    rival: Shop = request.getfixturevalue("other_shop")
    keys = {outline(each, each.job_id).key for each in (shop, rival)}
    assert {len(key) for key in keys} == {3}
    assert len(keys) == 2


def test_obstacles(shop: Shop) -> None:
    disabled = shop.add_job("Disabled", CRAWL, enabled=False).job_id
    without = shop.add_job("Without agent", agent_id=None).job_id
    ready = shop.add_job("Ready", CRAWL).job_id
    assert "disabled" in (outline(shop, disabled).obstacle or "")
    assert "agent" in (outline(shop, without).obstacle or "")
    assert outline(shop, ready).obstacle is None
    shop.change_project(enabled=False)
    assert "project is disabled" in (outline(shop, ready).obstacle or "")


def test_plans_are_stored_with_agents_and_outlined_anew_where_they_are_missing(shop: Shop) -> None:
    job_id = shop.add_job("Prices", CRAWL).job_id
    stored = outline(shop, job_id)
    with shop.database.write() as session:
        plan = session.scalars(select(Agent.outline).where(Agent.pipeline_yaml == CRAWL)).one()
        assert plan["version"] == VERSION
        execute_update(session, update(Agent).values(outline=None))
    assert outline(shop, job_id) == stored
    loader = OutlineLoader()
    with shop.database.write() as session:
        assert loader.load(session, [job_id]) == [stored]
        assert store_missing_outlines(session, loader) == 1
        assert session.scalars(select(Agent.outline).where(Agent.pipeline_yaml == CRAWL)).one() == plan
    with shop.database.write() as session:
        execute_update(session, update(Agent).values(outline=None, pipeline_yaml="pipeline: [{stage: explore}]"))
    broken = outline(shop, job_id)
    assert "explore" in (broken.obstacle or "")
    assert broken.steps == ()
