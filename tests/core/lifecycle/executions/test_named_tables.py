"""Datasets that a pipeline names: which version a name means, and whose."""

from __future__ import annotations

import pytest
from sqlalchemy import select

from core.data.datasets.versions import get_version, load_lineage, load_read_locations, remove_versions
from core.errors import BadInput, Conflict
from core.lifecycle.executions.paths import resolve_table
from core.lifecycle.executions.reports import fail
from core.lifecycle.executions.spec import build_spec
from core.tables import Dataset, DatasetRead, Execution, Project
from tests.support.shop import PIPELINE, Shop


def resolve(shop: Shop, name: str) -> tuple[str | None, int]:
    """Return the execution that published the version which the name means, and the version's number."""
    with shop.database.read() as session:
        version = resolve_table(session, session.get_one(Project, shop.project_id), name, "line 7")
        return version.execution_id, version.number


def refuse(shop: Shop, name: str) -> tuple[str, str]:
    """Return message and code of the error for a name."""
    with pytest.raises(BadInput) as refused:
        resolve(shop, name)
    (detail,) = refused.value.details
    assert detail.path == "line 7"
    return detail.message, detail.code


def publish(shop: Shop, times: int = 1) -> list[str]:
    executions = [shop.submit() for _ in range(times)]
    for each in executions:
        shop.complete(each)
    return [each.id for each in executions]


@pytest.mark.parametrize("name", ["shop.books", "books", "Books", "SHOP.Books", "spindle://shop/books"])
def test_a_name_means_the_current_version_and_a_number_another(shop: Shop, name: str) -> None:
    first, second = publish(shop, 2)
    assert resolve(shop, name) == (second, 2)
    assert resolve(shop, f"{name}@1") == (first, 1)
    assert refuse(shop, f"{name}@3")[1] == "unknown-version"
    assert refuse(shop, f"{name}@99999999999999999999")[1] == "unknown-version"


def test_a_bare_name_is_the_own_projects_first(shop: Shop) -> None:
    other, third = shop.add_project("Other"), shop.add_project("Third")
    (published,) = publish(other)
    assert resolve(shop, "books") == (published, 1), "the only one"
    publish(third)
    message, code = refuse(shop, "books")
    assert (code, "other.books, third.books" in message) == ("ambiguous-dataset", True)
    (own,) = publish(shop)
    assert resolve(shop, "books") == (own, 1)
    assert resolve(shop, "other.books") == (published, 1)


def test_unknown_and_unpublished_names_are_told_apart(shop: Shop) -> None:
    assert refuse(shop, "books")[1] == refuse(shop, "spindle://shop/books")[1] == "unpublished-dataset"
    publish(shop)
    assert "Did you mean shop.books" in refuse(shop, "shop.boks")[0]
    for name in ("shop.boks", "shop.boks@1", "nowhere", "s3://bucket/x", "/etc", "books@", "@1", ".", "x\0y", "../x"):
        assert refuse(shop, name)[1] == "unknown-dataset", name


def test_datasets_of_another_organization_do_not_exist(shop: Shop, other_shop: Shop) -> None:
    publish(other_shop, 2)
    secret = other_shop.add_project("Hidden")
    publish(secret)
    with shop.database.read() as session:
        ids = session.scalars(select(Dataset.id)).all()
    assert len(ids) == 2
    for name in ("hidden.books", "hidden", "spindle://hidden/books", "hidden.books@1", *ids):
        assert refuse(shop, name)[1] == "unknown-dataset", name
    assert refuse(shop, "shop.books@2")[1] == "unpublished-dataset", "its own job has not run"


QUERY = """\
pipeline:
  - stage: sql_query
    args:
      - %s
      - {tables: {%s}}
"""
JOIN = "SELECT n.title FROM new n JOIN old o ON n.title = o.title"


def query(shop: Shop, tables: str, text: str = JOIN) -> Execution:
    shop.write_pipeline(QUERY % (text, tables))
    return shop.submit()


def test_versions_are_frozen_when_an_execution_is_accepted(shop: Shop) -> None:
    publish(shop, 2)
    execution = query(shop, "new: books, old: shop.books@1")
    frozen = {name: read.number for name, read in execution.inputs.items()}
    assert frozen == {"table://books": 2, "table://shop.books@1": 1}
    with shop.database.read() as session:
        reads = session.scalars(select(DatasetRead).where(DatasetRead.execution_id == execution.id)).all()
        dataset = session.get_one(Dataset, reads[0].dataset_id)
        (reader,) = (each for each in load_lineage(session, dataset).read_by)
    assert len({read.version_id for read in reads}) == 2, "two versions of one dataset"
    assert (reader.execution_id, reader.version) == (execution.id, 2)
    spec = build_spec(shop.settings, shop.storage, execution)
    assert {name: each.version for name, each in spec.inputs.items()} == frozen
    publish(shop)
    assert {name: read.number for name, read in shop.reload(execution).inputs.items()} == frozen


OWN = f"""{PIPELINE}\
  - stage: sql_query
    args: [SELECT r.* FROM rows r LEFT ANTI JOIN own USING (title), {{tables: {{own: %s}}}}]
"""


def test_the_own_table_is_empty_until_something_is_published(shop: Shop) -> None:
    shop.write_pipeline(OWN % "shop.books")
    first = shop.submit()
    assert [(read.number, read.locations) for read in first.inputs.values()] == [(0, ())]
    spec = build_spec(shop.settings, shop.storage, first)
    assert [(each.paths, each.version) for each in spec.inputs.values()] == [((), None)]
    fail(shop.database, first.id, "It failed.")
    shop.complete(shop.retry(first), output_dataset_path=None)
    assert {read.number for read in shop.submit().inputs.values()} == {0}, "nothing was published"
    shop.write_pipeline(PIPELINE)
    publish(shop)
    shop.write_pipeline(OWN % "books")
    assert {read.number for read in shop.submit().inputs.values()} == {1}
    shop.write_pipeline(OWN % "books@7")
    with pytest.raises(BadInput, match="no version 7"):
        shop.submit()


@pytest.mark.parametrize("output", ["", "output: {path: gathered}\n"])
def test_the_own_path_is_empty_until_something_is_published(shop: Shop, output: str) -> None:
    path = "gathered" if output else "spindle://shop/books"
    union = f"  - {{stage: union_by_name, args: [{{path: '{path}', format: parquet}}]}}\n"
    shop.write_pipeline(f"{output}{PIPELINE}{union}")
    (read,) = shop.submit().inputs.values()
    assert (read.number, read.locations, read.columns) == (0, (), (("title", "string"),))


def test_a_path_that_nothing_writes_is_refused_with_similar_ones(shop: Shop) -> None:
    publish(shop)
    shop.write_pipeline("pipeline:\n  - {stage: load_parquet, args: ['spindle://shop/bocks']}\n")
    with pytest.raises(BadInput, match="spindle://shop/books") as refused:
        shop.submit()
    assert [(each.path, each.code) for each in refused.value.details] == [("line 2", "unknown-dataset")]


def test_the_own_table_of_a_pipeline_without_rows_has_no_columns_yet(shop: Shop) -> None:
    with pytest.raises(BadInput, match="not published yet"):
        query(shop, "new: books, old: books")


@pytest.mark.parametrize("column", ["n.titel", "o.other"])
def test_a_column_that_a_dataset_lacks_is_refused_at_acceptance(shop: Shop, column: str) -> None:
    publish(shop)
    with pytest.raises(BadInput, match=f"no column '{column[2:]}' in the dataset") as refused:
        query(shop, "new: books, old: books@1", f"SELECT {column} FROM new n JOIN old o ON n.TITLE = o.title")
    assert [(each.path, each.code) for each in refused.value.details] == [("line 2", "unknown-column")]


def test_columns_that_may_be_there_are_left_to_the_run(shop: Shop) -> None:
    publish(shop)
    for text in (
        "SELECT titel FROM new, old",
        "SELECT x.a FROM (SELECT 1 AS a FROM new, old) x",
        "SELECT n.* FROM new n",
    ):
        assert query(shop, "new: books, old: books", text).inputs


def test_a_retry_by_hand_of_a_removed_version_is_refused(shop: Shop) -> None:
    publish(shop, 2)
    execution = query(shop, "new: books, old: books@1")
    fail(shop.database, execution.id, "It failed.")
    remove(shop, 1)
    with pytest.raises(Conflict, match="Version 1 of 'books@1' was removed") as refused:
        shop.retry(execution)
    assert refused.value.details[0].code == "unknown-version"
    again = query(shop, "new: books, old: books@2")
    fail(shop.database, again.id, "It failed.")
    assert shop.retry(again).inputs == again.inputs


def test_files_of_a_removed_version_stay_until_the_execution_has_ended(shop: Shop) -> None:
    publish(shop, 2)
    execution = query(shop, "new: books, old: books@1")
    remove(shop, 1)
    (location,) = execution.inputs["table://books@1"].locations

    def is_read() -> bool:
        with shop.database.read() as session:
            return location in load_read_locations(session, shop.organization_id)

    assert is_read()
    fail(shop.database, execution.id, "It failed.")
    assert not is_read()


def remove(shop: Shop, number: int) -> None:
    """Remove a version of the only dataset."""
    with shop.database.write() as session:
        dataset = session.scalars(select(Dataset)).one()
        remove_versions(session, shop.organization_id, [get_version(session, dataset, str(number))], None)


def test_datasets_that_another_organization_names_alike_are_not_read(shop: Shop, other_shop: Shop) -> None:
    publish(other_shop, 2)
    for tables in ("new: shop.books, old: books", "new: books@2, old: books", "new: spindle://shop/books, old: books"):
        with pytest.raises(BadInput) as refused:
            query(shop, tables)
        assert refused.value.details[0].code == "unpublished-dataset"
    (own,) = publish_first(shop)
    assert {read.number for read in query(shop, "new: shop.books, old: books").inputs.values()} == {1}
    with pytest.raises(BadInput, match="no version 2"):
        query(shop, "new: books@2, old: books")
    assert own


def publish_first(shop: Shop) -> list[str]:
    shop.write_pipeline(PIPELINE)
    return publish(shop)
