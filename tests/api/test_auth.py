"""Keys and scopes, over every operation there is."""

from __future__ import annotations

from datetime import timedelta

import pytest

from api.app import create_app
from core.api_keys import SCOPES, create_key
from core.database import open_database
from core.settings import Settings
from core.tables import ApiKey, now
from tests.api.conftest import Api, Server
from tests.api.operations import OPERATIONS, Operation

UNKNOWN = "01990000-0000-7000-8000-000000000000"
OPEN = {"/livez", "/readyz", "/api/docs", "/api/openapi.json"}


def path_of(operation: Operation) -> str:
    return operation.path.format_map(dict.fromkeys(operation.path_parameters, UNKNOWN))


@pytest.mark.parametrize("operation", OPERATIONS, ids=str)
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"X-API-Key": ""},
        {"X-API-Key": "sk_wrong"},
        {"Authorization": "Bearer sk_wrong"},
        {"Authorization": "Basic c2s6c2s="},
        {"Authorization": "Bearer"},
    ],
    ids=str,
)
def test_every_operation_refuses_a_missing_or_wrong_key(acme: Api, operation: Operation, headers: dict[str, str]):
    body = operation.body({})
    response = acme.client.request(operation.method, path_of(operation), headers=headers, json=body)
    assert response.status_code == 401
    assert response.json()["code"] == 401


def test_the_paths_that_need_no_key_are_these_alone(acme: Api):
    routes = {path for path in _paths(create_app(Settings())) if "{" not in path}
    without = {path for path in routes if acme.client.get(path).status_code not in (401, 405)}
    assert {path for path in without if not path.startswith("/api/docs/")} == OPEN


def _paths(app: object) -> set[str]:
    documented = {path for path in app.openapi()["paths"]}  # type: ignore[attr-defined]
    return documented | OPEN | {"/api/docs/swagger-ui.css", "/api/docs/swagger-ui-bundle.js"}


def test_a_revoked_and_an_expired_key_are_refused(server: Server, acme: Api):
    database = open_database(server.settings)
    keys: list[str] = []
    with database.write() as session:
        revoked, key = create_key(session, acme.organization_id, "revoked")
        revoked.revoked_at = now()
        keys.append(key)
        keys.append(create_key(session, acme.organization_id, "old", expires_at=now() - timedelta(seconds=1))[1])
    database.close()
    for key in keys:
        assert acme.client.get("/api/svc/api/projects", headers={"X-API-Key": key}).status_code == 401


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


@pytest.mark.parametrize("operation", OPERATIONS, ids=str)
def test_an_operation_is_open_to_its_scope_and_to_admins_alone(by_scope: dict[str, Api], operation: Operation):
    implied = {"super_admin"} if "super_admin" in operation.scopes else {"admin", "super_admin"}
    allowed = {*implied, *operation.scopes} if operation.scopes else SCOPES
    for scope, api in by_scope.items():
        response = api.call(operation.method, path_of(operation), json=operation.body({}), params=operation.query)
        assert (response.status_code != 403) == (scope in allowed), f"{scope}: {response.text}"


def test_a_malformed_body_is_not_read_before_the_key(acme: Api):
    response = acme.client.post("/api/svc/api/projects", content=b"{", headers={"Content-Type": "application/json"})
    assert response.status_code == 401


def test_keys_are_stored_hashed(server: Server, acme: Api):
    database = open_database(server.settings)
    with database.read() as session:
        hashes = [key.key_hash for key in session.query(ApiKey)]
    database.close()
    assert acme.key not in str(hashes)
    assert all(len(each) == 64 for each in hashes)
