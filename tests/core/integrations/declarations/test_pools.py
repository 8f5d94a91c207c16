"""Pools and the jobs that name them, declared and exported."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import select

from core.errors import BadInput, Conflict
from core.integrations.declarations import service
from core.integrations.declarations.models import Declaration
from core.integrations.declarations.service import Application
from core.lifecycle.outlines.outlines import OutlineLoader
from core.tables import Job
from tests.support.shop import Shop


def apply(shop: Shop, pools: list[Any] | None, *jobs: dict[str, Any], **options: bool) -> Application:
    document = {"pools": pools, "projects": [{"name": "Shop", "jobs": [*jobs]}]}
    return service.apply(shop.database, shop.settings, shop.caller, Declaration.model_validate(document), **options)


def export(shop: Shop) -> dict[str, Any]:
    with shop.database.read() as session:
        return service.export(session, shop.caller).model_dump(by_alias=True, exclude_none=True)


def test_pools_are_declared_with_jobs_changed_and_exported(shop: Shop) -> None:
    pools, job = [{"name": "host", "limit": 2}, {"name": "mail", "limit": 1}], {"name": "Books", "pools": ["host"]}
    made = apply(shop, pools, job)
    assert [(each.action, each.kind, each.name) for each in made.changes] == [
        ("create", "pool", "host"),
        ("create", "pool", "mail"),
        ("change", "job", "Shop/Books"),
    ]
    assert export(shop)["pools"] == pools
    assert export(shop)["projects"][0]["jobs"][0]["pools"] == ["host"]
    (change,) = apply(shop, [{"name": "host", "limit": 3}], job).changes
    assert [(each.name, each.before, each.after) for each in change.fields] == [("limit", 2, 3)]
    with shop.database.read() as session:
        (outline,) = OutlineLoader().load(session)
    assert outline.tags == (("spindle.pool/host", ""),)  # of the asset and its runs in Dagster


def test_an_unknown_pool_is_refused_and_told_of_a_package(shop: Shop) -> None:
    job = {"name": "Books", "pools": ["hots"]}
    with pytest.raises(BadInput, match=r"'hots', which does not exist. Did you mean host\?") as refused:
        apply(shop, [{"name": "host", "limit": 2}], job)
    assert (refused.value.details[0].path, refused.value.details[0].code) == ("pools", "not-found")
    (warning,) = apply(shop, None, job, complete=True).warnings
    assert "Create it with its limit first." in warning


def test_pruning_deletes_pools_that_no_job_names_any_more(shop: Shop) -> None:
    job = {"name": "Books", "pools": ["host"]}
    apply(shop, [{"name": "host", "limit": 2}], job)
    with pytest.raises(Conflict, match="is named by Shop/Books"):
        apply(shop, [], job, prune=True)
    apply(shop, [], {"name": "Books", "pools": []}, prune=True)
    assert "pools" not in export(shop)
    with shop.database.read() as session:
        assert session.scalars(select(Job.pools)).all() == [[]]
