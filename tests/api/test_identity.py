"""API keys and organizations over REST."""

from __future__ import annotations

from core.definitions.identity.roles import ORDINARY_SCOPES
from tests.support.api import Api, Server, answered


def test_a_key_is_made_shown_once_used_listed_and_revoked(acme: Api):
    made = acme.post("/auth/api-keys", {"name": "robot", "scopes": ["etl:read"]})
    assert made["key"].startswith("sk_")
    robot = Api(acme.client, acme.settings, acme.organization_id, made["key"])
    assert robot.call("GET", "/projects").status_code == 200
    assert robot.call("POST", "/projects", json={"name": "x"}).status_code == 403
    listed = {key["id"]: key for key in acme.get("/auth/api-keys")}
    assert listed[made["id"]]["lastUsedAt"] is not None
    assert "key" not in listed[made["id"]]
    for _ in range(2):
        assert acme.call("DELETE", f"/auth/api-keys/{made['id']}").json() == {}
    assert robot.call("GET", "/projects").status_code == 401


def test_a_key_without_scopes_gets_the_ordinary_ones(acme: Api):
    made = acme.post("/auth/api-keys", {"name": "plain", "expiresAt": ""})
    assert (set(made["scopes"]), made["expiresAt"]) == (ORDINARY_SCOPES, None)
    refused = acme.call("POST", "/auth/api-keys", json={"name": "x", "scopes": ["everything"]})
    assert (refused.status_code, "Unknown scope: everything" in refused.text) == (400, True)
    empty = acme.call("POST", "/auth/api-keys", json={"name": "x", "scopes": []})
    assert (empty.status_code, empty.json()["details"][0]["path"]) == (400, "scopes")


def test_an_admin_cannot_make_a_super_admin(acme: Api, server: Server):
    body = {"name": "x", "scopes": ["super_admin"]}
    assert acme.call("POST", "/auth/api-keys", json=body).status_code == 403
    root = server.caller(acme.organization_id, "super_admin")
    assert answered(root.call("POST", "/auth/api-keys", json=body))["scopes"] == ["super_admin"]


def test_a_super_admin_makes_organizations_that_see_nothing_of_each_other(acme: Api, server: Server):
    root = server.caller(acme.organization_id, "super_admin")
    made = root.post("/auth/organizations", {"name": "Fresh Ltd"})
    fresh = Api(acme.client, acme.settings, made["id"], made["key"])
    assert fresh.get("/auth/organizations/me")["name"] == "Fresh Ltd"
    assert fresh.get("/projects") == []
    assert len(fresh.get("/auth/api-keys")) == 1
    assert made["id"] in [organization["id"] for organization in root.get("/auth/organizations")]
    assert root.call("POST", "/auth/organizations", json={"name": "Fresh Ltd"}).status_code == 409
    assert fresh.call("GET", "/auth/organizations").status_code == 403
