"""Uploads of datasets: detection, conversion, SQL over them, and files that are refused whole."""

from __future__ import annotations

import gzip
import io
import json
import socket
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from api.app import create_app
from core.infra.storage import open_storage
from tests.support.api import BASE, Api, read_code, running

CSV = b'id;name;price;zip;seen\n1;"kettle\nlarge";19.5;01067;2026-01-02\n2;mug;;10115;2026-01-03\n'


def upload(api: Api, content: bytes, file_name: str = "goods.csv", **fields: Any) -> httpx.Response:
    return api.call("POST", "/datasets/upload", files={"file": (file_name, content)}, data=fields)


def read_back(api: Api, made: Any) -> Any:
    return api.post("/datasets/query", {"sql": f"SELECT * FROM {made['schema']}.{made['tableName']}"})["results"]


def to_parquet(table: pa.Table) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    return buffer.getvalue()


@pytest.mark.long
def test_a_csv_file_becomes_a_table_that_sql_and_loads_know(acme: Api) -> None:
    project = acme.project("uploads")
    answer = upload(acme, CSV, projectId=project, type="input", name="Goods of May", description="From the shop.")
    assert answer.status_code == 200, answer.text
    made = answer.json()
    assert (made["name"], made["description"]) == ("Goods of May", "From the shop.")
    assert (made["datasetType"], made["format"], made["indexed"], made["version"]) == ("INPUT", "parquet", True, 1)
    assert made["storagePath"] == made["filePath"] == "spindle://uploads/goods_of_may"
    assert made["rowCount"] == 2
    assert made["sizeBytes"] > 0
    assert made["detected"] == {
        "format": "csv",
        "compression": None,
        "encoding": "utf-8",
        "delimiter": ";",
        "header": True,
    }
    types = {column["name"]: column["type"] for column in made["columns"]}
    assert types == {"id": "bigint", "name": "varchar", "price": "double", "zip": "varchar", "seen": "date"}
    rows = [
        {"id": 1, "name": "kettle\nlarge", "price": 19.5, "zip": "01067", "seen": "2026-01-02"},
        {"id": 2, "name": "mug", "price": None, "zip": "10115", "seen": "2026-01-03"},
    ]
    assert made["preview"] == rows == read_back(acme, made)
    assert acme.get(f"/datasets/{made['id']}")["rowCount"] == 2
    pipeline = f"pipeline:\n  - {{stage: load_csv, args: ['{made['storagePath']}']}}\n"
    job = acme.job("loads an upload", pipeline=pipeline)
    assert job.execute()


@pytest.mark.long
def test_a_table_is_named_as_the_client_says(acme: Api) -> None:
    project = acme.project("named tables")
    made = upload(acme, b"id\n1\n", projectId=project, name="Goods of May", tableName="may_goods")
    assert (made.status_code, made.json()["tableName"]) == (200, "may_goods")
    taken = upload(acme, b"id\n1\n", projectId=project, tableName="may_goods")
    assert read_code(taken) == (409, "name-taken")
    for name in ("May", "a-b", "x" * 61):
        refused = acme.call("POST", "/datasets", json={"name": "x", "tableName": name})
        assert (refused.status_code, refused.json()["details"][0]["path"]) == (400, "tableName")
    path = f"/datasets/{made.json()['id']}"
    assert acme.put(path, acme.get(path) | {"name": "June"})["tableName"] == "may_goods"
    assert acme.call("PUT", path, json={"tableName": "june"}).status_code == 400
    assert upload(acme, b"id\n1\n", datasetId=made.json()["id"], tableName="june").status_code == 400


@pytest.mark.long
def test_a_preview_has_the_digits_of_the_file(acme: Api) -> None:
    rows = pa.table(
        {
            "amount": pa.array([Decimal("12345678901234567.89")], pa.decimal128(19, 2)),
            "small": pa.array([0.1], pa.float32()),
            "much": [float("inf")],
        }
    )
    made = upload(acme, to_parquet(rows), "rows.parquet")
    assert '"preview":[{"amount":12345678901234567.89,"small":0.1,"much":"Infinity"}]' in made.text
    lines = acme.call("GET", f"/datasets/{made.json()['id']}/download", params={"format": "jsonl"})
    assert lines.text == '{"amount":12345678901234567.89,"small":0.1,"much":"Infinity"}\n'


@pytest.mark.long
def test_what_the_client_says_is_not_detected(acme: Api) -> None:
    answer = upload(acme, "naïve|2024\nä|1\n".encode("cp1252"), encoding="windows-1252", header="true", delimiter="|")
    assert answer.json()["preview"] == [{"naïve": "ä", "2024": 1}]
    answer = upload(acme, b"a,b\nc,d\n", header="false")
    assert answer.json()["rowCount"] == 2
    answer = upload(acme, b"a|b\n1|2\n", format="CSV", delimiter=",")
    assert answer.json()["preview"] == [{"a|b": "1|2"}]


def test_parquet_is_stored_with_types_that_all_engines_read(acme: Api) -> None:
    rows = pa.table(
        {
            "at": pa.array([1], pa.timestamp("ns")),
            "count": pa.array([2**63], pa.uint64()),
            "kind": pa.array(["x"]).dictionary_encode(),
            "tags": [["a", "b"]],
        }
    )
    made = upload(acme, to_parquet(rows), "rows.parquet").json()
    assert {column["name"]: column["type"] for column in made["columns"]} == {
        "at": "timestamp",
        "count": "decimal(20, 0)",
        "kind": "varchar",
        "tags": "array(varchar)",
    }
    assert read_back(acme, made)[0]["tags"] == ["a", "b"]


def list_files(api: Api) -> list[str]:
    scratch = [str(each) for each in (api.settings.data / "uploads").rglob("*")]
    return [
        *(file.key for file in open_storage(api.settings.storage).list(f"{api.organization_id}/datasets")),
        *scratch,
    ]


@pytest.mark.parametrize(
    ("fields", "status", "path"),
    [
        ({"projectId": "unknown"}, 404, ""),
        ({"datasetId": "unknown"}, 404, ""),
        ({"datasetType": "BOTH"}, 400, "datasetType"),
        ({"format": "xlsx"}, 400, "format"),
        ({"delimiter": "ab"}, 400, "delimiter"),
        ({"header": "perhaps"}, 400, "header"),
        ({"encoding": "klingon"}, 400, "file"),
        ({"encoding": "rot13"}, 400, "file"),
        ({"name": "x" * 300}, 400, "name"),
        ({"name": "x" * 70_000}, 413, ""),
    ],
)
def test_fields_are_checked(acme: Api, fields: dict[str, str], status: int, path: str) -> None:
    answer = upload(acme, b"a\n1\n", **fields)
    assert (answer.status_code, answer.json()["details"][0]["path"]) == (status, path), answer.text


def test_a_form_without_the_file_is_refused(acme: Api) -> None:
    for request in ({"json": {}}, {"content": b"a,b"}, {"data": {"name": "x"}}):
        answer = acme.call("POST", "/datasets/upload", **request)
        assert read_code(answer) == (400, "invalid-content-type")
    answer = acme.call("POST", "/datasets/upload", files={"other": b"a\n1\n"})
    assert read_code(answer) == (400, "missing-field")
    twice = [("file", ("a.csv", b"a\n1\n")), ("file", ("b.csv", b"a\n1\n"))]
    assert acme.call("POST", "/datasets/upload", files=twice).status_code == 400


@pytest.mark.long
@pytest.mark.parametrize("name", ["../../etc/passwd.csv", "..\\..\\boot.csv", "..", "a\0b.csv"])
def test_the_name_of_a_file_leads_nowhere(acme: Api, name: str) -> None:
    answer = upload(acme, b"a\n1\n", name)
    assert answer.status_code == 200, answer.text
    assert "/" not in answer.json()["name"]
    assert "/" not in answer.json()["storagePath"].removeprefix("spindle://default/")


def test_an_upload_that_is_cut_off_or_cannot_be_read_whole_leaves_nothing(acme: Api) -> None:
    before = len(acme.get("/datasets")), list_files(acme)
    answer = upload(acme, b"a,b\n1,2\n1,2,3\n")
    assert read_code(answer) == (400, "invalid-file"), answer.text
    assert "line 3" in answer.json()["error"]
    assert str(acme.settings.data) not in answer.text
    body = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.csv"\r\n\r\na,b\n1,2\n'
    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    answer = acme.call("POST", "/datasets/upload", content=body, headers=headers)
    assert read_code(answer) == (400, "truncated-upload")
    url = urlsplit(str(acme.client.base_url))
    with socket.create_connection((url.hostname, url.port)) as connection:
        head = f"POST {BASE}/datasets/upload HTTP/1.1\r\nHost: x\r\nX-API-Key: {acme.key}\r\nContent-Length: 9999\r\n"
        connection.sendall(f"{head}Content-Type: {headers['Content-Type']}\r\n\r\n".encode() + body)
    assert acme.get("/datasets", limit=1) is not None
    assert (len(acme.get("/datasets")), list_files(acme)) == before


@pytest.mark.long
def test_uploads_beyond_the_limit_are_413(tmp_path: Path, acme: Api) -> None:
    settings = acme.settings.replace(upload_gigabytes=0.002)
    with running(create_app(settings)) as url, httpx.Client(base_url=url, timeout=60) as client:
        small = Api(client, settings, acme.organization_id, acme.key)
        announced = upload(small, b"a\n" + b"1\n" * 2_000_000)
        bomb = upload(small, gzip.compress(b"a\n" + b"1\n" * 2_000_000))
        sparse = tmp_path / "sparse"
        with sparse.open("wb") as file:
            file.truncate(2 * 2**30)
        with sparse.open("rb") as file:
            body = b'--x\r\nContent-Disposition: form-data; name="file"\r\n\r\n'
            chunks = (chunk for chunk in [body, *(file.read(2**20) for _ in range(5))])
            headers = {"Content-Type": "multipart/form-data; boundary=x"}
            streamed = small.call("POST", "/datasets/upload", content=chunks, headers=headers)
    for answer in (announced, bomb, streamed):
        assert read_code(answer) == (413, "too-large"), answer.text


def test_a_bomb_is_refused_by_its_ratio(acme: Api) -> None:
    answer = upload(acme, gzip.compress(gzip.compress(b"a\n") and b"1\n" * 60_000_000, 9))
    assert read_code(answer) == (413, "too-large")


def test_another_organization_cannot_add_to_a_dataset(acme: Api, rival: Api) -> None:
    made = upload(acme, b"a\n1\n").json()
    assert upload(rival, b"a\n1\n", datasetId=made["id"]).status_code == 404
    assert upload(rival, b"a\n1\n", projectId=acme.project("not theirs")).status_code == 404
    assert json.loads(rival.call("GET", f"/datasets/{made['id']}").text)["code"] == 404
