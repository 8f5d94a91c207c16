"""Keys and scopes, over every operation there is."""

from __future__ import annotations

import re
from datetime import timedelta

import httpx
import pytest
from fastapi.routing import iter_route_contexts

from api.app import create_app
from core.definitions.identity.api_keys import create_key
from core.definitions.identity.roles import SCOPES
from core.infra.settings import Settings
from core.tables import now
from tests.api.operations import OPERATIONS, Operation
from tests.support.api import Api, Server, open_session

UNKNOWN = "01990000-0000-7000-8000-000000000000"
GALLERY = f"/api/svc/api/ean-image-sourcing/{UNKNOWN}/gallery"
OPEN = {"/", "/livez", "/readyz", "/api/docs", "/api/openapi.json", GALLERY}


REPORT = {"executionId": UNKNOWN, "status": "FAILED"}  # the one body that is read before its sender is known
WRONG: list[dict[str, str]] = [
    {},
    {"X-API-Key": ""},
    {"X-API-Key": "sk_wrong"},
    {"Authorization": "Bearer sk_wrong"},
    {"Authorization": "Basic c2s6c2s="},
    {"Authorization": "Bearer"},
]


def path_of(operation: Operation) -> str:
    return operation.path.format_map(dict.fromkeys(operation.path_parameters, UNKNOWN))


def routes() -> list[tuple[str, str]]:
    """Method and path of all routes, those that the OpenAPI file does not show among them."""
    found = {
        (method, re.sub(r"{[^}]*}", UNKNOWN, route.path))
        for route in iter_route_contexts(create_app(Settings()).routes)
        if route.path is not None  # as that of the index is
        if not route.path.startswith("/console")  # pages ask for a session: see test_console_sessions.py
        for method in (route.methods or {"GET"}) - {"HEAD"}
    }
    return sorted(found)


@pytest.fixture(scope="module")
def dead(server: Server, acme: Api) -> list[dict[str, str]]:
    """Keys that were valid once."""
    with open_session(server.settings) as session:
        revoked, first = create_key(session, acme.organization_id, "revoked")
        revoked.revoked_at = now()
        _, second = create_key(session, acme.organization_id, "old", expires_at=now() - timedelta(seconds=1))
    return [{"X-API-Key": first}, {"Authorization": f"Bearer {second}"}]


def is_open(path: str) -> bool:
    return path in OPEN or path.startswith("/api/docs/")


@pytest.mark.long
def test_open_routes_need_no_key(acme: Api):
    answers = {path: acme.client.request(method, path).status_code for method, path in routes() if is_open(path)}
    assert {path: status for path, status in answers.items() if status != 200} == {}


@pytest.mark.long
def test_every_route_refuses_a_missing_wrong_revoked_or_expired_key(acme: Api, dead: list[dict[str, str]]):
    answers = {
        (method, path, str(headers)): acme.client.request(method, path, headers=headers, json=REPORT)
        for method, path in routes()
        if not is_open(path)
        for headers in (*WRONG, *dead)
    }
    assert [sent for sent, answer in answers.items() if not is_refused(answer)] == []


def is_refused(answer: httpx.Response) -> bool:
    return (answer.status_code, answer.headers.get("WWW-Authenticate")) == (401, "ApiKey") and answer.json()[
        "code"
    ] == 401


def test_the_key_is_understood_in_every_header(acme: Api):
    for headers in (
        {"X-API-Key": acme.key},
        {"x-api-key": acme.key},
        {"Authorization": f"ApiKey {acme.key}"},
        {"Authorization": f"Bearer {acme.key}"},
        {"Authorization": f"bearer {acme.key}", "Content-Type": "application/json"},
    ):
        assert acme.client.get("/api/svc/api/projects", headers=headers).status_code == 200


@pytest.fixture(scope="module")
def by_scope(server: Server, acme: Api) -> dict[str, Api]:
    return {scope: server.caller(acme.organization_id, scope) for scope in sorted(SCOPES)}


@pytest.mark.long
def test_every_operation_needs_its_scope_or_admin(by_scope: dict[str, Api]):
    wrong: list[str] = []
    for operation in OPERATIONS:
        implied = {"super_admin"} if "super_admin" in operation.scopes else {"admin", "super_admin"}
        allowed = {*implied, *operation.scopes} if operation.scopes else SCOPES
        for scope, api in by_scope.items():
            response = api.call(operation.method, path_of(operation), json=operation.body({}), params=operation.query)
            if (response.status_code != 403) != (scope in allowed):
                wrong.append(f"{operation} with {scope}: {response.text}")
    assert wrong == []


def test_a_malformed_body_is_not_read_before_the_key(acme: Api):
    response = acme.client.post("/api/svc/api/projects", content=b"{", headers={"Content-Type": "application/json"})
    assert response.status_code == 401


def test_a_key_of_another_organization_is_refused(acme: Api, rival: Api):
    for organization, status in (
        (rival.organization_id, 403),
        ("unknown", 403),
        (acme.organization_id, 200),
        ("", 200),
    ):
        body = {"name": "reports", "organizationId": organization, "colour": "red"}
        assert acme.call("POST", "/auth/api-keys", json=body).status_code == status
