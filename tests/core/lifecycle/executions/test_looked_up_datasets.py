"""Datasets that a lookup names: frozen at acceptance, in the organization's own storage alone."""

from __future__ import annotations

import pytest
from sqlalchemy import select

from core.data.datasets.versions import load_lineage
from core.errors import BadInput
from core.lifecycle.executions.spec import build_spec
from core.tables import Dataset, Execution
from tests.support.shop import Shop

LOOKUP = """
fetch: {url: 'http://shop.test/'}
pipeline:
- {stage: extract, args: [{selector: h1, as: name}]}
- {stage: lookup, args: ['%s', {on: {name: %s}, columns: [%s], prefix: old_}]}
"""


def publish(shop: Shop, times: int = 1) -> None:
    for _ in range(times):
        shop.complete(shop.submit())


def submit_lookup(shop: Shop, dataset: str, key: str = "title", column: str = "title") -> Execution:
    shop.write_pipeline(LOOKUP % (dataset, key, column))
    return shop.submit()


@pytest.mark.parametrize(("name", "number"), [("shop.books", 2), ("books@1", 1), ("spindle://shop/books@2", 2)])
def test_the_version_is_frozen_when_an_execution_is_accepted(shop: Shop, name: str, number: int) -> None:
    publish(shop, 2)
    execution = submit_lookup(shop, name)
    assert {key: read.number for key, read in execution.inputs.items()} == {f"table://{name}": number}
    assert build_spec(shop.settings, shop.storage, execution).inputs[f"table://{name}"].version == number
    with shop.database.read() as session:
        (reader,) = load_lineage(session, session.scalars(select(Dataset)).one()).read_by
    assert (reader.execution_id, reader.version) == (execution.id, number)


@pytest.mark.parametrize(("key", "column"), [("titel", "title"), ("title", "titel")])
def test_columns_that_the_dataset_lacks_are_refused_at_acceptance(shop: Shop, key: str, column: str) -> None:
    publish(shop)
    with pytest.raises(BadInput, match="no column 'titel' in the dataset") as refused:
        submit_lookup(shop, "books", key, column)
    assert [(each.path, each.code) for each in refused.value.details] == [("line 5", "unknown-column")]


def test_the_own_table_is_empty_until_it_is_published(shop: Shop) -> None:
    first = submit_lookup(shop, "books")
    assert [(read.number, read.locations) for read in first.inputs.values()] == [(0, ())]
    shop.complete(first)
    assert [read.number for read in submit_lookup(shop, "shop.books").inputs.values()] == [1]


def test_a_dataset_of_another_organization_does_not_exist(shop: Shop, other_shop: Shop) -> None:
    publish(other_shop, 2)
    (own,) = submit_lookup(shop, "shop.books").inputs.values()
    assert own.locations == ()
    for name in ("shop.books@1", "books@2", "spindle://shop/books@1"):
        with pytest.raises(BadInput) as refused:
            submit_lookup(shop, name)
        assert refused.value.details[0].code == "unpublished-dataset"
