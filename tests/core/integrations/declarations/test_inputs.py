"""Inputs of declared jobs that are tables of jobs which have not published yet."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import select

from core.errors import BadInput
from core.integrations.declarations import service
from core.integrations.declarations.models import Declaration
from core.integrations.declarations.service import Application
from core.tables import Dataset, Execution, Job
from tests.support.shop import Shop


def apply(shop: Shop, *jobs: dict[str, Any], complete: bool = False, dry_run: bool = False) -> Application:
    declaration = Declaration.model_validate({"projects": [{"name": "Shop", "jobs": [*jobs]}]})
    return service.apply(shop.database, shop.settings, shop.caller, declaration, complete=complete, dry_run=dry_run)


def find_inputs(shop: Shop) -> dict[str, str | None]:
    """Return the table that each job reads, by the job's name."""
    with shop.database.read() as session:
        query = select(Job.name, Dataset.slug).outerjoin(Dataset, Dataset.id == Job.input_dataset_id)
        return {name: table for name, table in session.execute(query)}


@pytest.mark.parametrize("complete", [False, True])
def test_a_job_reads_the_table_of_one_declared_beside_it_in_any_order(shop: Shop, complete: bool) -> None:
    """Also along a chain, and where two jobs read each other's tables, which is a warning."""
    jobs: tuple[dict[str, Any], ...] = (
        {"name": "Third", "inputDataset": "shop.second_part"},
        {"name": "Second part", "inputDataset": "shop.first"},
        {"name": "First", "inputDataset": "shop.fourth"},
        {"name": "Fourth", "inputDataset": "shop.first"},
    )
    made = apply(shop, *jobs, complete=complete)
    assert [change.action for change in made.changes] == ["create"] * 4
    assert len(made.warnings) == (not complete)
    assert complete or "The job 'First' reads the table of 'Fourth', which reads that of 'First'" in made.warnings[0]
    expected = {"Third": "second_part", "Second part": "first", "First": "fourth", "Fourth": "first"}
    assert find_inputs(shop) == {"Books": None, **expected}
    again = apply(shop, *jobs, complete=complete)
    assert (again.changes, again.unchanged) == ([], 5)


def test_the_table_is_the_one_that_the_job_publishes(shop: Shop) -> None:
    """An existing job that has not run may be named too, and its change is told once."""
    apply(shop, {"name": "Prices"})
    changed = apply(shop, {"name": "Prices", "inputDataset": "shop.books", "description": "Of books"})
    assert [(each.name, each.before, each.after) for each in changed.changes[0].fields] == [
        ("description", None, "Of books"),
        ("inputDataset", None, "shop.books"),
    ]
    apply(shop, {"name": "Later"})
    later = apply(shop, {"name": "Later", "inputDataset": "shop.prices"})
    assert ([field.name for field in later.changes[0].fields], later.unchanged) == (["inputDataset"], 1)
    execution = shop.submit()
    shop.complete(execution)
    with shop.database.read() as session:
        published = session.get_one(Execution, execution.id).dataset_id
        assert session.scalar(select(Job.input_dataset_id).where(Job.name == "Prices")) == published


def test_a_dry_run_creates_no_table(shop: Shop) -> None:
    shown = apply(shop, {"name": "Prices", "inputDataset": "shop.books"}, dry_run=True)
    assert [change.action for change in shown.changes] == ["create"]
    with shop.database.read() as session:
        assert session.scalars(select(Dataset)).all() == []


def test_a_table_of_no_job_is_refused_with_near_matches(shop: Shop) -> None:
    with pytest.raises(BadInput, match=r"no inputDataset 'shop.book'. Did you mean shop.books\?") as refused:
        apply(shop, {"name": "Prices", "inputDataset": "shop.book"})
    assert refused.value.details[0].code == "not-found"
    assert apply(shop, {"name": "Prices", "inputDataset": "shop.book"}, complete=True).warnings == [
        "job 'Shop/Prices': its input, the table shop.book, is not here."
    ]
