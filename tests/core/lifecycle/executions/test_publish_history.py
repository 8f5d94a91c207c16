"""Executions whose output is a history: what they publish, and what they say has changed."""

from __future__ import annotations

from typing import Any

from sqlalchemy import select

from core.lifecycle.executions.events import build_event_data
from core.lifecycle.executions.outputs import load_targets
from core.tables import DatasetVersion, Execution
from pipelines.contract.request import OUTPUT, Target
from tests.support.shop import PIPELINE, Shop

HISTORY = f"{PIPELINE}output: {{mode: history, keys: [title]}}\n"
ADDED = {"added": 3, "changed": 0, "retired": 0}


def begin(shop: Shop) -> tuple[Execution, Target]:
    shop.write_pipeline(HISTORY)
    execution = shop.submit()
    with shop.database.read() as session:
        return execution, load_targets(session, shop.storage, shop.reload(execution))[OUTPUT]


def end(shop: Shop, begun: tuple[Execution, Target], changes: dict[str, int], **fields: Any) -> Execution:
    execution, target = begun
    additional = {"merged": {"version": target.version}, "changes": changes, "output": {"totalRows": 5}}
    shop.complete(execution, additional_metrics=additional, **fields)
    return shop.reload(execution)


def list_rows(shop: Shop) -> list[int | None]:
    with shop.database.read() as session:
        return [*session.scalars(select(DatasetVersion.row_count).order_by(DatasetVersion.number))]


def test_a_history_is_written_with_the_rows_of_the_current_version(shop: Shop) -> None:
    first = end(shop, begin(shop), ADDED)
    assert (first.state, list_rows(shop)) == ("COMPLETED", [5])
    assert build_event_data(first)["changes"] == ADDED
    _, target = begin(shop)
    assert [path.split("/")[-3] for path in target.paths] == [first.id]


def test_without_a_difference_the_record_names_the_current_version(shop: Shop) -> None:
    first = end(shop, begin(shop), ADDED)
    same = end(shop, begin(shop), dict.fromkeys(ADDED, 0), output_dataset_path=None, records_output=3)
    assert (same.state, same.dataset_id) == ("COMPLETED", first.dataset_id)
    assert list_rows(shop) == [5]
