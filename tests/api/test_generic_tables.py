"""Generic tables over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from api.app import create_app
from core.infra.settings import Settings
from tests.support.api import Api, Server

TABLES = "/api/api/cms-tables"


def test_a_record_from_first_to_last(acme: Api):
    path = f"{TABLES}/articles"
    made = acme.post(path, {"title": "Kettle", "price": 19.5})
    assert made.keys() == {"id", "createdAt", "updatedAt", "title", "price"}
    assert acme.get(f"{path}/{made['id']}") == made
    changed = acme.put(f"{path}/{made['id']}", {"price": 18})
    assert (changed["title"], changed["price"]) == ("Kettle", 18)
    assert acme.call("DELETE", f"{path}/{made['id']}").json() == {}
    assert acme.call("GET", f"{path}/{made['id']}").status_code == 404


def test_a_list_is_a_page_with_its_total(acme: Api):
    path = f"{TABLES}/mugs"
    assert acme.get(path) == {"data": [], "page": 0, "pageSize": 50, "total": 0}
    for n in range(5):
        acme.post(path, {"n": n, "size": {"height": 10 + n % 2}})
    page = acme.get(path, page=1, pageSize=2, sort="-n")
    assert ([record["n"] for record in page["data"]], page["page"], page["pageSize"], page["total"]) == (
        [2, 1],
        1,
        2,
        5,
    )
    assert [record["n"] for record in acme.get(path, **{"size.height": "11"})["data"]] == [1, 3]


@pytest.mark.parametrize(
    "params",
    [{"page": -1}, {"pageSize": 0}, {"pageSize": 1001}, {"page": 10**20}, {'a"b': 1}, {"sort": ".."}, {"createdAt": 1}],
    ids=str,
)
def test_a_bad_query_is_400(acme: Api, params: dict[str, Any]):
    response = acme.call("GET", f"{TABLES}/articles", params=params)
    assert (response.status_code, response.json()["code"]) == (400, 400)


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b"[]", 400),
        (b"1", 400),
        (b"null", 400),
        (b"", 400),
        (b'{"a": NaN}', 400),
        (b'{"a": 1e999}', 400),
        (b'{"a": "\\u0000"}', 400),
        (b'{"a": "\\ud800"}', 400),
        (b'{"a": "\xff"}', 400),
        (b'{"a":' * 100_000, 400),
        (b'{"a": ' + b"9" * 5000 + b"}", 400),
        (b'{"a": "' + b"x" * 2**20 + b'"}', 413),
        (b'{"a": "' + b"x" * 5 * 2**20 + b'"}', 413),
    ],
    ids=lambda value: str(value)[:24],
)
def test_a_body_that_is_no_record_is_refused(acme: Api, content: bytes, status: int):
    response = acme.call("POST", f"{TABLES}/refused", content=content, headers={"Content-Type": "application/json"})
    assert (response.status_code, response.json()["code"]) == (status, status)
    assert acme.get(f"{TABLES}/refused")["total"] == 0


def test_a_change_is_made_to_the_state_that_was_read_or_not_at_all(acme: Api):
    path = f"{TABLES}/articles"
    record = f"{path}/{acme.post(path, {'n': 1})['id']}"
    read = acme.call("GET", record).headers["ETag"]
    changed = acme.call("PUT", record, json={"n": 2}, headers={"If-Match": read})
    assert (changed.status_code, changed.headers["ETag"] != read) == (200, True)
    for method in ("PUT", "DELETE"):
        assert acme.call(method, record, json={"n": 3}, headers={"If-Match": read}).status_code == 412
    assert acme.get(record)["n"] == 2
    assert acme.call("DELETE", record, headers={"If-Match": changed.headers["ETag"]}).status_code == 200


def test_another_organization_sees_nothing_of_a_table(acme: Api, rival: Api):
    theirs = rival.post(f"{TABLES}/shared", {"n": 1})["id"]
    mine = acme.post(f"{TABLES}/shared", {"n": 2})["id"]
    assert [record["id"] for record in acme.get(f"{TABLES}/shared")["data"]] == [mine]
    assert acme.call("PUT", f"{TABLES}/shared/{theirs}", json={"n": 3}).status_code == 404
    assert rival.get(f"{TABLES}/shared/{theirs}")["n"] == 1


def test_a_key_that_reads_does_not_write(server: Server, acme: Api):
    reader = server.caller(acme.organization_id, "etl:read")
    assert reader.call("GET", f"{TABLES}/articles").status_code == 200
    assert reader.call("POST", f"{TABLES}/articles", json={}).status_code == 403


def test_the_segment_is_a_setting():
    paths = create_app(Settings(tables_segment="content")).openapi()["paths"]
    assert "/api/api/content/{table}" in paths
