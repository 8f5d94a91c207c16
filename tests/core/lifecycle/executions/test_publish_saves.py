"""What stages save: published when the execution completes, loaded by the same name afterwards."""

from __future__ import annotations

from typing import Any

import pytest

from core.data.sql.catalog import Catalog
from core.errors import BadInput
from core.infra.storage.protocol import saves_key
from core.tables import Execution
from tests.support.shop import PIPELINE, Shop

SAVE = PIPELINE + "  - {stage: save_csv, args: ['%s', %s]}\n"
LOAD = "pipeline:\n  - {stage: load_csv, args: ['%s']}\n"


def saved(path: str, mode: str = "overwrite", format_: str = "csv", folder: str = "1") -> dict[str, Any]:
    columns = [{"name": "title", "type": "string"}]
    places = {"path": path, "mode": mode, "format": format_, "folder": folder}
    return {"additional_metrics": {"saves": [{**places, "columns": columns, "rows": 2, "bytes": 10}]}}


def key(execution: Execution, folder: str = "1") -> str:
    return f"{saves_key(execution.organization_id, execution.id, execution.attempt)}/{folder}"


def loaded(shop: Shop, path: str) -> dict[str, tuple[tuple[str, ...], str, str | None]]:
    """Return locations, format and snapshot of the inputs of a job that loads the path."""
    shop.write_pipeline(LOAD % path)
    inputs = shop.submit().inputs
    return {name: (read.locations, read.format, read.snapshot) for name, read in inputs.items()}


@pytest.mark.parametrize("path", ["prices", "spindle://shop/prices", "${OUTPUT_PRICES}"])
def test_a_save_is_loaded_by_its_name_after_the_execution(shop: Shop, path: str) -> None:
    shop.write_pipeline(SAVE % (path, "overwrite"))
    execution = shop.submit()
    shop.write_pipeline(LOAD % path)
    with pytest.raises(BadInput, match="There is no dataset at"):
        shop.submit()
    named = path.replace("${OUTPUT_PRICES}", "spindle://shop/output_prices")
    shop.complete(execution, **saved(named))
    assert loaded(shop, path) == {named: ((key(execution),), "csv", None)}


def test_an_overwrite_replaces_and_an_append_adds(shop: Shop) -> None:
    executions = [shop.submit() for _ in range(4)]
    for execution, mode in zip(executions, ("append", "overwrite", "append", "append"), strict=True):
        shop.complete(execution, **saved("prices", mode))
    assert loaded(shop, "prices")["prices"][0] == tuple(key(each) for each in executions[1:])


def test_an_append_in_another_format_starts_a_new_version(shop: Shop) -> None:
    first, second = shop.submit(), shop.submit()
    shop.complete(first, **saved("prices"))
    shop.complete(second, **saved("prices", "append", "parquet"))
    assert loaded(shop, "prices")["prices"] == ((key(second),), "parquet", None)


def test_a_failed_execution_and_an_earlier_attempt_publish_nothing(shop: Shop) -> None:
    execution = shop.submit()
    late = saved("prices")
    late["additional_metrics"]["attempt"] = execution.attempt + 1
    shop.complete(execution, **late)
    shop.report(execution, "FAILED", **saved("prices"))
    shop.write_pipeline(LOAD % "prices")
    with pytest.raises(BadInput, match="There is no dataset at 'prices' yet"):
        shop.submit()


def test_a_pipeline_may_load_its_own_saves(shop: Shop) -> None:
    shop.write_pipeline(SAVE % ("prices", "overwrite") + "  - {stage: load_csv, args: [prices]}\n")
    assert shop.submit().inputs == {}


def test_sql_sees_only_parquet_saves(shop: Shop) -> None:
    execution = shop.submit()
    both = saved("as_csv")
    both["additional_metrics"]["saves"] += saved("as parquet", format_="parquet", folder="2")["additional_metrics"][
        "saves"
    ]
    shop.complete(execution, **both)
    with shop.database.read() as session:
        tables = Catalog(session, shop.organization_id).load_tables("shop")
    assert [(table.name, table.locations) for table in tables if table.name != "books"] == [
        ("as_parquet", (key(execution, "2"),))
    ]


@pytest.mark.parametrize("path", ["../x", "spindle://other/x", "a//b"])
def test_a_save_out_of_the_storage_is_refused_with_its_line(shop: Shop, path: str) -> None:
    shop.write_pipeline(SAVE % (path, "overwrite"))
    with pytest.raises(BadInput, match="outside of the organization's storage") as error:
        shop.submit()
    assert error.value.details[0].path == "line 4"


def test_a_report_cannot_name_another_folder(shop: Shop) -> None:
    execution = shop.submit()
    with pytest.raises(BadInput, match=r"additionalMetrics\.saves"):
        shop.complete(execution, **saved("prices", folder="../../other"))
    assert shop.reload(execution).state == "PENDING"
