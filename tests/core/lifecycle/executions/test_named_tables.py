"""Datasets that a pipeline names: which version a name means, and whose."""

from __future__ import annotations

from dataclasses import replace

import pytest

from core.definitions.jobs.models import JobCreate
from core.definitions.jobs.repository import JobRepository
from core.definitions.projects.models import ProjectCreate
from core.definitions.projects.repository import ProjectRepository
from core.errors import BadInput
from core.lifecycle.executions.paths import resolve_table
from core.tables import Project
from tests.support.shop import Shop


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


def add_project(shop: Shop, name: str) -> Shop:
    """Return a shop with another project of the organization, whose job is also called Books."""
    with shop.database.write() as session:
        project_id = ProjectRepository(session, shop.organization_id).create(ProjectCreate(name=name)).id
        jobs = JobRepository(session, shop.organization_id)
        job_id = jobs.create(project_id, JobCreate(name="Books", agent_id=shop.agent_id)).id
    return replace(shop, project_id=project_id, job_id=job_id)


@pytest.mark.parametrize("name", ["shop.books", "books", "Books", "SHOP.Books", "spindle://shop/books"])
def test_a_name_means_the_current_version_and_a_number_another(shop: Shop, name: str) -> None:
    first, second = publish(shop, 2)
    assert resolve(shop, name) == (second, 2)
    assert resolve(shop, f"{name}@1") == (first, 1)
    assert refuse(shop, f"{name}@3")[1] == "unknown-version"
    assert refuse(shop, f"{name}@99999999999999999999")[1] == "unknown-version"


def test_a_bare_name_is_the_own_projects_first(shop: Shop) -> None:
    other, third = add_project(shop, "Other"), add_project(shop, "Third")
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
    secret = add_project(other_shop, "Hidden")
    publish(secret)
    for name in ("hidden.books", "spindle://hidden/books", "hidden.books@1"):
        assert refuse(shop, name)[1] == "unknown-dataset", name
    assert refuse(shop, "shop.books@2")[1] == "unpublished-dataset", "its own job has not run"
