"""Export of records as a declaration."""

from __future__ import annotations

from datetime import timedelta

import pytest

from core.definitions.identity.api_keys import Identity
from core.errors import BadInput
from core.integrations.declarations import service
from core.integrations.declarations.export import export_declaration
from core.integrations.declarations.models import Declaration
from core.tables import Category, Job, Schedule, Webhook, now
from tests.support.shop import PIPELINE, Shop


def caller(shop: Shop, *scopes: str) -> Identity:
    return Identity(shop.organization_id, "key", frozenset(scopes))


def exported(shop: Shop) -> Declaration:
    with shop.database.read() as session:
        return service.export(session, caller(shop, "admin"))


def test_defaults_and_past_times_are_omitted(shop: Shop) -> None:
    with shop.database.write() as session:
        session.get_one(Job, shop.job_id).scheduled_time = now() - timedelta(days=1)
    assert exported(shop).model_dump(exclude_none=True) == {
        "categories": [],
        "agents": [{"name": "Crawler", "pipeline": PIPELINE}],
        "projects": [{"name": "Shop", "jobs": [{"name": "Books", "agent": "Crawler"}]}],
    }


def test_values_that_differ_from_defaults_are_exported(shop: Shop) -> None:
    retries = {"maxRetries": 1, "retryBackoffSeconds": 0, "timeoutSeconds": 60, "retryOn": "any"}
    job = {"name": "Books", "enabled": False, "driverReuse": False, "scheduledTime": "2099-01-01T00:00:00Z", **retries}
    job |= {"publish": False, "tags": {"team": "prices", "tier": ""}}
    schedule = {"timezone": "Europe/Berlin", "job": "Books"}
    project = {"name": "Shop", "driverReuse": False, "cronSchedule": "@daily", "schedule": schedule, "jobs": [job]}
    service.apply(
        shop.database, shop.settings, caller(shop, "admin"), Declaration.model_validate({"projects": [project]})
    )
    plain = exported(shop).model_dump(mode="json", by_alias=True, exclude_none=True)
    assert plain["projects"] == [{**project, "jobs": [{**job, "agent": "Crawler"}]}]


def test_schedules_are_created_changed_exported_and_pruned(shop: Shop) -> None:
    def apply(*schedules: dict[str, object], prune: bool = False) -> list[tuple[str, str]]:
        project = {"name": "Shop", "cronSchedule": "@weekly", "schedules": list(schedules)}
        declared = Declaration.model_validate({"projects": [project]})
        applied = service.apply(shop.database, shop.settings, caller(shop, "admin"), declared, prune=prune)
        return [(each.action.value, each.name) for each in applied.changes if each.kind == "schedule"]

    nightly: dict[str, object] = {"name": "nightly", "cronSchedule": "0 2 * * *", "job": "Books"}
    hourly = {"name": "hourly", "cronSchedule": "@hourly", "timezone": "Asia/Kolkata", "parameters": {"PAGES": 1}}
    assert apply(nightly, hourly) == [("create", "Shop/nightly"), ("create", "Shop/hourly")]
    assert apply(nightly, hourly) == []
    written = exported(shop).model_dump(mode="json", by_alias=True, exclude_none=True)["projects"][0]
    assert (written["cronSchedule"], written["schedules"]) == ("@weekly", [nightly, hourly])
    assert apply(nightly | {"cronSchedule": "0 3 * * *"}) == [("change", "Shop/nightly")]
    assert apply(nightly, prune=True) == [("change", "Shop/nightly"), ("delete", "Shop/hourly")]
    with shop.database.read() as session:
        planned = {each.name: each.next_tick_at for each in session.query(Schedule)}
    assert (planned.keys(), None in planned.values()) == ({"", "nightly"}, False)


def test_private_categories_of_others_are_left_out_with_their_agents(shop: Shop) -> None:
    declared = {
        "categories": [{"name": "Mine", "visibility": "private"}],
        "agents": [{"name": "Secret", "category": "Mine"}],
        "projects": [{"name": "Shop", "jobs": [{"name": "Books", "agent": "Mine/Secret"}]}],
    }
    service.apply(shop.database, shop.settings, caller(shop, "admin"), Declaration.model_validate(declared))
    with shop.database.write() as session:
        session.query(Category).update({"created_by_key_id": "other"})
    with shop.database.read() as session:
        visible = export_declaration(session, caller(shop, "etl:read"))
        complete = export_declaration(session, caller(shop, "admin"))
    assert (visible.categories, visible.agent_names) == ([], ["Crawler"])
    assert [job.agent for each in visible.projects or () for job in each.jobs or ()] == [None]
    assert [job.agent for each in complete.projects or () for job in each.jobs or ()] == ["Mine/Secret"]


def test_webhooks_are_created_changed_exported_and_pruned(shop: Shop) -> None:
    def apply(*webhooks: dict[str, object], prune: bool = False) -> list[tuple[str, str]]:
        declared = Declaration.model_validate({"projects": [{"name": "Shop", "webhooks": list(webhooks)}]})
        applied = service.apply(shop.database, shop.settings, caller(shop, "admin"), declared, prune=prune)
        created = [each.name for each in applied.changes if each.action == "create"]
        assert len(applied.warnings) == len(created), "each says how to read its secret"
        return [(each.action.value, each.name) for each in applied.changes]

    first, second = "https://example.com/first", "https://example.com/second"
    some = {"url": first, "events": ["execution.failed"], "description": "Pager"}
    assert apply(some, {"url": second}) == [("create", f"Shop/{first}"), ("create", f"Shop/{second}")]
    assert apply(some, {"url": second}) == []
    written = exported(shop).model_dump(mode="json", by_alias=True, exclude_none=True)["projects"][0]["webhooks"]
    assert written == [some, {"url": second}]
    with shop.database.read() as session:
        assert (export_declaration(session, caller(shop, "admin")).projects or [])[0].webhooks is None
        secret = session.query(Webhook).filter_by(url=first).one().secret
    assert apply(some | {"enabled": False}) == [("change", f"Shop/{first}")]
    assert apply(some, prune=True) == [("delete", f"Shop/{second}")]
    with shop.database.read() as session:
        assert [(each.url, each.secret) for each in session.query(Webhook)] == [(first, secret)]


def test_notifications_are_created_changed_exported_and_pruned(shop: Shop) -> None:
    shop.add_credential("SLACK", name="ops", api_key="https://chat.test/x")

    def apply(*rules: dict[str, object], prune: bool = False) -> list[tuple[str, str, list[str]]]:
        declared = Declaration.model_validate({"projects": [{"name": "Shop", "notifications": list(rules)}]})
        made = service.apply(shop.database, shop.settings, caller(shop, "admin"), declared, prune=prune)
        return [(each.action, each.name, [field.name for field in each.fields]) for each in made.changes]

    rule = {"name": "on_call", "to": "SLACK/ops", "events": ["failed"], "job": "Books", "endBy": "07:00"}
    assert apply(rule, {"name": "other", "to": "SLACK/ops", "maxCost": 2.5}) == [
        ("create", "Shop/on_call", []),
        ("create", "Shop/other", []),
    ]
    assert apply(rule) == []
    rule |= {"pauseSeconds": 60}
    assert apply(rule, prune=True) == [("change", "Shop/on_call", ["pauseSeconds"]), ("delete", "Shop/other", [])]
    written = exported(shop).model_dump(mode="json", by_alias=True, exclude_none=True)["projects"][0]["notifications"]
    assert written == [rule]
    assert apply(rule | {"beginBy": ""}) == []
    with pytest.raises(BadInput, match=r"there is no target 'SLACK/osp'.*SLACK/ops"):
        apply({"name": "on_call", "to": "SLACK/osp"})
