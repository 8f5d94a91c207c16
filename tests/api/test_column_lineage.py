"""Columns of datasets over REST: descriptions, and the columns of sources that they are made of."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.api import ROWS, Api

TEXT = "The <script>alert(1)</script> *title*"
CRAWL = f"""
fetch: {{url: "https://shop.example/?token=secret"}}
pipeline:
  - stage: extract
    args:
      - {{selector: h1, as: title, description: "{TEXT}"}}
      - {{selector: .price, method: price, as: price}}
"""
JOIN = """
pipeline:
  - {stage: load_parquet, args: ["spindle://TABLE/TABLE"]}
  - stage: sql_query
    args: ["SELECT r.title, m.price FROM rows r JOIN more m ON r.title = m.title",
           {dialect: DIALECT, tables: {more: TABLE.TABLE}}]
"""


def read_sources(columns: list[dict[str, Any]]) -> dict[str, list[tuple[Any, ...]]]:
    return {
        each["name"]: [(one["source"], one["column"], one["datasetId"]) for one in each["sources"]] for each in columns
    }


@pytest.mark.parametrize("dialect", ["spark", "trino"])
def test_columns_have_descriptions_and_sources(acme: Api, rival: Api, dialect: str) -> None:
    crawl = acme.job(f"described {dialect}", pipeline=CRAWL)
    dataset = crawl.complete(crawl.execute(), ROWS)
    table = acme.get(f"/datasets/{dataset}")
    assert [(each["name"], each["description"]) for each in table["columns"]] == [("title", TEXT), ("price", None)]
    path = f"/datasets/{dataset}/lineage"
    assert acme.get(path)["columns"] is None
    columns = acme.get(path, columns="true")["columns"]
    assert read_sources(columns) == {
        "title": [("https://shop.example", "h1", None)],
        "price": [("https://shop.example", ".price", None)],
    }
    assert [(each["type"], each["all"]) for each in columns] == [("varchar", False), ("double", False)]
    schema = table["schema"]
    described = acme.post("/datasets/query", {"sql": f"DESCRIBE {schema}.{table['tableName']}"})["results"]
    assert [each["Comment"] for each in described] == [TEXT, ""]
    listed = acme.get("/datasets/query/columns", table=table["tableName"], schema=schema)
    assert [each["description"] for each in listed] == [TEXT, None]
    assert rival.call("GET", path, params={"columns": "true"}).status_code == 404

    reader = acme.job(f"joined {dialect}", pipeline=JOIN.replace("TABLE", schema).replace("DIALECT", dialect))
    made = reader.complete(reader.execute(), ROWS)
    assert read_sources(acme.get(f"/datasets/{made}/lineage", columns="true")["columns"]) == {
        "title": [(f"spindle://{schema}/{schema}", "title", dataset)],
        "price": [(f"{schema}.{schema}", "price", dataset)],
    }


def test_appended_rows_keep_the_sources_of_earlier_ones(acme: Api) -> None:
    output = "output: {mode: append}\n"
    job = acme.job("appended sources", pipeline=output + CRAWL)
    job.complete(job.execute(), ROWS)
    other = CRAWL.replace("shop.example", "other.example").replace("The <", "Another <")
    acme.put(f"/agents/none/{job.agent_id}", {"pipelineYaml": output + other})
    dataset = job.complete(job.execute(), ROWS)
    title = acme.get(f"/datasets/{dataset}/lineage", columns="true")["columns"][0]
    assert [each["source"] for each in title["sources"]] == ["https://shop.example", "https://other.example"]
    assert title["description"].startswith("Another")
    acme.post(f"/datasets/{dataset}/versions/1/restore", {})
    assert acme.get(f"/datasets/{dataset}")["columns"][0]["description"] == TEXT


def test_an_uploaded_table_and_one_without_a_version_have_no_sources(acme: Api) -> None:
    empty = acme.post("/datasets", {"name": "nothing yet"})
    assert acme.get(f"/datasets/{empty['id']}")["columns"] == []
    files = {"file": ("rows.csv", b"a\n1\n")}
    made = acme.call("POST", "/datasets/upload", files=files, data={"name": "uploaded columns"}).json()
    (column,) = acme.get(f"/datasets/{made['id']}/lineage", columns="true")["columns"]
    assert (column["name"], column["type"], column["sources"], column["all"]) == ("a", "bigint", [], False)


def test_a_job_has_owners(acme: Api) -> None:
    job = acme.job("owned")
    owners = ["team:prices", "ann@shop.example"]
    assert acme.put(job.path, {"owners": owners})["owners"] == owners
    assert acme.get(job.path)["owners"] == owners
    for wrong in ("ann", "team:", "team:<b>", "a@b", "x" * 300 + "@shop.example", "ann@shop.example\n"):
        assert acme.call("PUT", job.path, json={"owners": [wrong]}).status_code == 400, wrong
