"""What COMPLETED publishes: versions, append and overwrite, logical paths and the loads that read them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from io import BytesIO

import pytest
from sqlalchemy import select
from structlog.testing import capture_logs

from core.data.datasets.repository import DatasetRepository, get_address
from core.errors import BadInput
from core.infra.storage.protocol import output_key
from core.lifecycle.executions.outputs import get_keys
from core.tables import Dataset, DatasetRead, DatasetVersion, Execution, Job
from core.tables.executions import FrozenInput
from core.tables.states import State
from pipelines.contract.request import OUTPUT
from tests.support.cases import each_case
from tests.support.shop import PIPELINE, Shop

NO_ROWS = {"rows": 0, "bytes": 0}
LOAD = "pipeline:\n  - {stage: load_csv, args: [{path: '%s'}]}\n"


def current(shop: Shop, execution: Execution) -> tuple[Dataset, DatasetVersion]:
    with shop.database.read() as session:
        datasets = DatasetRepository(session, shop.organization_id)
        dataset = datasets.get(shop.reload(execution).dataset_id or "")
        version = datasets.find_version(dataset)
    assert version is not None
    return dataset, version


def key(execution: Execution) -> str:
    return output_key(execution.organization_id, execution.id, execution.attempt)


def output(mode: str, path: str = "spindle://shop/all") -> str:
    return f"{PIPELINE}output: {{path: '{path}', mode: {mode}}}\n"


def test_completion_publishes_the_jobs_table(shop: Shop) -> None:
    execution = shop.submit()
    shop.complete(execution, rows=3, output_file_size_bytes=2**40)
    dataset, version = current(shop, execution)
    assert (dataset.schema_slug, dataset.slug, dataset.format) == ("shop", "books", "parquet")
    assert (version.locations, version.row_count, version.size_bytes) == ([key(execution)], 3, 2**40)
    source = {"source": "http://127.0.0.1", "column": "h1", "dataset": None}
    assert version.columns == [{"name": "title", "type": "string", "sources": [source]}]
    assert get_address(dataset) == "spindle://shop/books"
    with shop.database.read() as session:
        assert session.get_one(Job, shop.job_id).output_dataset_id == dataset.id
        assert [each.dataset.id for each in DatasetRepository(session, shop.organization_id).list()] == [dataset.id]


def test_a_second_report_of_the_end_says_nothing_was_ignored(shop: Shop) -> None:
    execution = shop.submit()
    with capture_logs() as logs:
        shop.complete(execution, rows=3)
        shop.complete(execution, rows=3)
    assert [each["event"] for each in logs if each["log_level"] == "warning"] == []
    assert "warnings" not in shop.reload(execution).metrics
    assert current(shop, execution)[1].row_count == 3


def test_without_output_block_the_newest_output_replaces(shop: Shop) -> None:
    first, second = shop.submit(), shop.submit()
    shop.complete(first)
    shop.complete(second, rows=5)
    _, version = current(shop, second)
    assert (version.locations, version.row_count) == ([key(second)], 5)


def test_append_adds_to_the_files_at_the_path(shop: Shop) -> None:
    shop.write_pipeline(output("append"))
    first, second = shop.submit(), shop.submit()
    shop.complete(first)
    shop.complete(second)
    dataset, version = current(shop, second)
    assert dataset.logical_path == "spindle://shop/all"
    assert (version.locations, version.row_count) == ([key(first), key(second)], 6)


def test_an_append_of_narrower_files_than_those_published_meanwhile_is_refused(shop: Shop) -> None:
    shop.write_pipeline(output("append"))
    first, narrow, wide, same = (shop.submit() for _ in range(4))
    shop.complete(first, output_dataset_schema='[{"name": "price", "type": "int"}]')
    schema = '[{"name": "price", "type": "bigint"}]'
    merged = {"merged": {"version": current(shop, first)[1].id}, "output": {"totalRows": 6}}
    shop.complete(wide, output_dataset_schema=schema, additional_metrics=merged)
    assert shop.complete(narrow, output_dataset_schema='[{"name": "Price", "type": "int"}]') is State.FAILED
    sentence = "The column 'Price' has become bigint in the dataset, from int, since the rows were written."
    assert sentence in (shop.reload(narrow).error_message or "")
    assert shop.complete(same, output_dataset_schema=schema) is State.COMPLETED
    assert current(shop, same)[1].locations == [key(wide), key(same)]


def test_overwrite_keeps_the_new_folder_only(shop: Shop) -> None:
    shop.write_pipeline(output("append"))
    for _ in range(2):
        shop.complete(shop.submit())
    shop.write_pipeline(output("overwrite"))
    last = shop.submit()
    shop.complete(last)
    assert current(shop, last)[1].locations == [key(last)]


def test_appends_of_two_jobs_to_one_path_add_up(shop: Shop) -> None:
    shop.write_pipeline(output("append"))
    executions = [each.submit() for each in [shop, shop.add_job("Toys")] * 4]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(shop.complete, executions))
    with shop.database.read() as session:
        found = DatasetRepository(session, shop.organization_id).find_at("spindle://shop/all")
    assert sorted(found.locations) == sorted(map(key, executions))


def test_a_failed_execution_publishes_nothing(shop: Shop) -> None:
    first, second = shop.submit(), shop.submit()
    shop.complete(first)
    shop.report(second, "FAILED", error_message="It broke.")
    shop.complete(second)
    assert current(shop, first)[1].locations == [key(first)]


def test_a_path_that_is_not_the_attempts_own_is_recorded_and_not_read(shop: Shop) -> None:
    first = shop.submit()
    shop.complete(first)
    other = shop.submit()
    for path in ("/etc", f"/elsewhere/{key(other)}"):
        execution = shop.submit()
        shop.complete(execution, output_dataset_path=path, output_dataset_schema="any text")
        stored = shop.reload(execution)
        assert (stored.state, stored.dataset_id) == ("COMPLETED", None)
        assert stored.metrics["output_dataset_path"] == path
        assert stored.metrics["output_dataset_schema"] == "any text"
        assert path in stored.metrics["warnings"][0]
    assert current(shop, first)[1].locations == [key(first)]


def test_an_output_without_files_is_not_published(shop: Shop) -> None:
    first, second = shop.submit(), shop.submit()
    shop.complete(first)
    path = shop.storage.url_for(key(second), "spark")
    shop.storage.put(f"{key(second)}/_SUCCESS", BytesIO())
    saves = {"saves": [{"path": "all", "mode": "overwrite", "format": "csv", "folder": "1", "columns": [], **NO_ROWS}]}
    shop.report(second, "COMPLETED", output_dataset_path=path, additional_metrics=saves)
    assert shop.reload(second).dataset_id is None
    assert current(shop, first)[1].locations == [key(first)]
    with shop.database.read() as session:
        assert DatasetRepository(session, shop.organization_id).find_at("spindle://shop/all") is None


def test_a_malformed_schema_is_refused_and_changes_nothing(shop: Shop) -> None:
    execution = shop.submit()
    with pytest.raises(BadInput, match="outputDatasetSchema"):
        shop.complete(execution, output_dataset_schema="title string")
    assert shop.reload(execution).state == "PENDING"
    assert shop.active() == 1


@each_case("path", ["spindle://shop/all", "spindle://shop/all/", "all"])
def test_spellings_of_an_output_path(shop: Shop, path: str) -> None:
    shop.write_pipeline(output("overwrite", path))
    assert shop.submit().output_name == "spindle://shop/all"


@each_case(
    "path",
    [
        "/srv/data",
        "~/data",
        "file:///srv/data",
        "../other",
        "spindle://shop",
        "spindle://shop/../other",
        "spindle://shop//x",
        "spindle://rivals_project/x",
        "spindle://shop/" + "x" * 2000,
    ],
)
def test_an_output_path_outside_of_the_storage_is_refused(shop: Shop, path: str) -> None:
    shop.write_pipeline(output("overwrite", path))
    with pytest.raises(BadInput, match="outside of the organization's storage") as error:
        shop.submit()
    assert error.value.details[0].path == "output.path"


def test_another_organizations_project_is_outside(shop: Shop, other_shop: Shop) -> None:
    other_shop.add_project("Secret")
    shop.write_pipeline(output("overwrite", "spindle://secret/x"))
    with pytest.raises(BadInput, match="outside"):
        shop.submit()


def test_a_load_reads_the_version_current_at_submission(shop: Shop) -> None:
    shop.write_pipeline(output("overwrite", "${OUTPUT_CSV}"))
    first = shop.submit()
    shop.complete(first)
    shop.write_pipeline(LOAD % "${OUTPUT_CSV}")
    reader = shop.submit()
    with shop.database.read() as session:
        (version,) = session.scalars(select(DatasetVersion))
        (read,) = session.scalars(select(DatasetRead))
    expected = FrozenInput(version.dataset_id, version.id, 1, "parquet", (key(first),))
    assert reader.inputs == {"spindle://shop/output_csv": expected}
    assert (read.execution_id, read.dataset_id, read.version_id) == (reader.id, version.dataset_id, version.id)


def test_the_input_dataset_is_input_path(shop: Shop) -> None:
    first = shop.submit()
    shop.complete(first)
    shop.change_job(input_dataset_id=shop.reload(first).dataset_id)
    shop.write_pipeline(LOAD % "${INPUT_PATH}")
    reader = shop.submit()
    assert reader.parameters == {"INPUT_PATH": "spindle://shop/books"}
    assert reader.inputs["spindle://shop/books"].locations == (key(first),)


def test_versions_have_the_keys_of_the_output(shop: Shop) -> None:
    shop.write_pipeline(f"{PIPELINE}output: {{mode: merge, keys: [title]}}\n")
    execution = shop.submit()
    shop.complete(execution, additional_metrics={"merged": {"version": None}})
    with shop.database.read() as session:
        assert session.scalars(select(DatasetVersion.keys)).all() == [["title"]]
    shop.write_pipeline(f"{PIPELINE}output: {{mode: history, keys: [title]}}\n")
    execution = shop.submit()
    assert get_keys(execution, OUTPUT) == ("title", "valid_from"), "each state is a row"
    assert get_keys(execution, "spindle://shop/other") == ()
