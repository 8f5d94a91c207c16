"""Files of a dataset that arrive every day: what changes in them by chance is no other type."""

from __future__ import annotations

import io
import json
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.api import Api, read_code

pytestmark = pytest.mark.usefixtures("read_uploads_here")
FORMATS = ("csv", "jsonl", "parquet")


def write(format_: str, **columns: list[Any]) -> bytes:
    """Return a file with these columns, in which None is an empty cell."""
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    if format_ == "jsonl":
        return "".join(json.dumps(row) + "\n" for row in rows).encode()
    if format_ == "csv":
        lines = [columns, *(row.values() for row in rows)]
        return "".join(",".join("" if cell is None else str(cell) for cell in line) + "\n" for line in lines).encode()
    buffer = io.BytesIO()
    pq.write_table(pa.table(columns), buffer)
    return buffer.getvalue()


def upload(api: Api, content: bytes, **fields: Any) -> httpx.Response:
    return api.call("POST", "/datasets/upload", files={"file": ("goods", content)}, data=fields)


def send(api: Api, content: bytes, **fields: Any) -> Any:
    answer = upload(api, content, **fields)
    assert answer.status_code == 200, answer.text
    return answer.json()


def list_types(made: Any) -> dict[str, str]:
    return {column["name"]: column["type"] for column in made["columns"]}


@pytest.mark.parametrize("format_", FORMATS)
def test_whole_and_empty_columns_keep_their_types(acme: Api, format_: str) -> None:
    made = send(acme, write(format_, id=[1, 2], price=[1.5, 2.5]), name=f"daily {format_}")
    types = list_types(made)
    assert types == {"id": "bigint", "price": "double"}
    for price in ([2, 3], [None, None], [1.5, None]):
        for consent in ("false", "true"):
            again = send(acme, write(format_, id=[1, 2], price=price), datasetId=made["id"], allowTypeChanges=consent)
            assert (list_types(again), again["warnings"]) == (types, [])
            assert [row["price"] for row in again["preview"]] == price


@pytest.mark.parametrize("format_", FORMATS)
def test_a_number_widens_once(acme: Api, format_: str) -> None:
    made = send(acme, write(format_, n=[1, 2]), name=f"widening {format_}")
    wider = send(acme, write(format_, n=[1.5, 2]), datasetId=made["id"])
    assert list_types(wider) == {"n": "double"}
    assert wider["warnings"] == ["The type of 'n' has changed: bigint → double."]
    again = send(acme, write(format_, n=[1, 2]), datasetId=made["id"])
    assert (list_types(again), again["warnings"]) == ({"n": "double"}, [])


@pytest.mark.parametrize("format_", FORMATS)
def test_a_column_has_a_type_when_its_first_value_comes(acme: Api, format_: str) -> None:
    made = send(acme, write(format_, id=[1], price=[None]), name=f"empty {format_}")
    assert list_types(made)["price"] == "varchar"
    filled = send(acme, write(format_, id=[1], price=[1.5]), datasetId=made["id"])
    assert list_types(filled) == {"id": "bigint", "price": "double"}


def test_missing_and_renamed_columns_are_named(acme: Api) -> None:
    made = acme.post("/datasets", {"name": "renaming"})
    first = send(acme, write("csv", id=[1], price=[2], unit=["kg"], note=["x"]), datasetId=made["id"])
    assert (made["version"], made["indexed"], first["version"], first["id"]) == (None, False, 1, made["id"])
    changed = send(acme, write("csv", id=[1], prices=[2], unit=["kg"]), datasetId=made["id"])
    assert changed["warnings"] == [
        "The column 'price' of version 1 is missing: 'prices' is new, so it may have been renamed.",
        "The column 'note' of version 1 is missing.",
    ]
    other = send(acme, write("csv", id=[1], prices=[2], measure=["kg"]), datasetId=made["id"])
    assert other["warnings"] == [
        "The column 'unit' of version 2 is missing: 'measure' is new, so it may have been renamed."
    ]


def test_text_in_a_column_of_numbers_needs_consent_once(acme: Api) -> None:
    made = send(acme, write("csv", id=[1], zip=["01067"], n=[5]), name="codes")
    digits = send(acme, write("csv", id=[1], zip=["10115"], n=[5]), datasetId=made["id"])
    assert (list_types(digits)["zip"], digits["preview"][0]["zip"]) == ("varchar", "10115")
    for text in ("x", "007"):
        refused = upload(acme, write("csv", id=[1], zip=["10115"], N=[text]), datasetId=made["id"])
        assert read_code(refused) == (409, "types-changed")
        assert "N (bigint → varchar)" in refused.json()["error"]
    assert upload(acme, b"n\n1\n", datasetId=made["id"], allowTypeChanges="maybe").status_code == 400
    assert acme.get(f"/datasets/{made['id']}")["version"] == 2
    changed = send(acme, write("csv", id=[1], zip=["01"], n=["x"]), datasetId=made["id"], allowTypeChanges="true")
    assert changed["warnings"] == ["The type of 'n' has changed: bigint → varchar."]
    assert list_types(send(acme, write("csv", id=[1], zip=["1"], n=[5]), datasetId=made["id"]))["n"] == "varchar"


def test_a_download_is_the_next_version_with_the_same_types(acme: Api) -> None:
    table = {"n": pa.array([1, None], pa.int8()), "d": pa.array(["2026-01-02", "x"]), "b": pa.array([b"\0", None])}
    made = send(acme, write("parquet", **table), name="there and back")
    for format_ in FORMATS:
        content = acme.call("GET", f"/datasets/{made['id']}/download", params={"format": format_}).content
        again = send(acme, content, datasetId=made["id"], format=format_)
        assert (list_types(again), again["preview"], again["warnings"]) == (list_types(made), made["preview"], [])
