"""Jobs that depend on others of their project, declared in any order."""

from __future__ import annotations

import pytest
from sqlalchemy import select

from core.definitions.jobs.models import JobUpdate
from core.definitions.jobs.repository import JobRepository
from core.errors import BadInput
from core.lifecycle.outlines.outlines import OutlineLoader
from core.tables import Job
from tests.core.integrations.declarations.test_inputs import apply
from tests.support.shop import Shop


def load_inputs(shop: Shop) -> dict[str, list[str]]:
    with shop.database.read() as session:
        return {each.name: [key[-1] for key in each.inputs] for each in OutlineLoader().load(session)}


def test_a_job_depends_on_one_declared_after_it(shop: Shop) -> None:
    jobs = ({"name": "Second", "dependsOn": ["First", "Books"]}, {"name": "First"})
    made = apply(shop, *jobs)
    assert made.warnings == []
    assert load_inputs(shop) == {"Books": [], "First": [], "Second": ["books", "first"]}
    assert apply(shop, *jobs).changes == []


def test_a_rename_is_followed_and_a_deletion_is_told(shop: Shop) -> None:
    apply(shop, {"name": "Second", "dependsOn": ["Books"]})
    with shop.database.write() as session:
        jobs = JobRepository(session, shop.organization_id)
        jobs.update(shop.project_id, shop.job_id, JobUpdate(name="Old books"))
        assert session.scalars(select(Job.depends_on).where(Job.name == "Second")).one() == ["Old books"]
        jobs.delete(shop.project_id, shop.job_id, lambda *_: None)
    with shop.database.read() as session:
        (outline,) = OutlineLoader().load(session)
    assert outline.notes == ("It depends on 'Old books', which is no job of its project any more.",)


@pytest.mark.parametrize("name", ["Nothing", "Second"])
def test_an_unknown_job_and_itself_are_refused_and_told_of_a_package(shop: Shop, name: str) -> None:
    job = {"name": "Second", "dependsOn": [name]}
    with pytest.raises(BadInput, match=f"cannot depend on '{name}'") as refused:
        apply(shop, job)
    assert refused.value.details[0].code == "not-found"
    assert len(apply(shop, job, complete=True).warnings) == 1


def test_of_a_circle_one_dependency_is_left_out_and_told(shop: Shop) -> None:
    apply(shop, {"name": "Second", "dependsOn": ["Books"]}, {"name": "Books", "dependsOn": ["Second"]})
    with shop.database.read() as session:
        notes = [note for each in OutlineLoader().load(session) for note in each.notes]
    assert len(notes) == 1
    assert "which depends on this job" in notes[0]
