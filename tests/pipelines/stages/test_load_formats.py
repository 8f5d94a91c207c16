"""Loads of Avro, XML, Delta, Iceberg and PostgreSQL."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from sqlalchemy import create_engine, make_url, text

from pipelines.contract.context import RunContext
from pipelines.contract.request import Files, Target
from pipelines.errors import PipelineError, RunError
from pipelines.fetch import CrawlOptions
from pipelines.language.formats import Mode
from pipelines.pipeline import Pipeline
from pipelines.tables.commits import Write, write_version
from pipelines.tables.spark_tables import open_table
from tests.support import mysql
from tests.support.hostile_mysql import serve_hostile_mysql
from tests.support.libraries import can_have, needs_libraries
from tests.support.pipelines import Run

ROWS = [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]


def load(stage: str, args: str) -> str:
    return f"pipeline: [{{stage: {stage}, args: [{args}]}}]"


def save(tmp_path: Path, run: Run, stage: str, place: str, rows: str = "id,name\n1,a\n2,b\n") -> str:
    (tmp_path / "in.csv").write_text(rows)
    source = f"{{stage: load_csv, args: [{{path: '{tmp_path}/in.csv', inferSchema: true}}]}}"
    run(f"pipeline: [{source}, {{stage: {stage}, args: ['{tmp_path}/{place}']}}]")
    return str(tmp_path / place)


@pytest.mark.long
@needs_libraries
@pytest.mark.parametrize("format_", ["avro", "delta", "iceberg"])
def test_saved_formats_are_loaded_also_in_a_union(run: Run, tmp_path: Path, format_: str) -> None:
    place = save(tmp_path, run, f"save_{format_}", "first")
    assert run(load(f"load_{format_}", place)) == ROWS
    rows = run(load("load_union", f"{{format: {format_}, path: {place}}}, {{format: csv, path: '{tmp_path}/in.csv', "
                    "options: {inferSchema: true}}"))  # fmt: skip
    assert [row["id"] for row in rows] == [1, 2, 1, 2]


@pytest.mark.long
@needs_libraries
@pytest.mark.parametrize("format_", ["delta", "iceberg"])
def test_a_dataset_is_loaded_in_its_version(run: Run, spark: SparkSession, tmp_path: Path, format_: str) -> None:
    place = str(tmp_path / "tables" / "table")
    table, versions = open_table(spark, format_, place), []
    for rows in ("SELECT 1 AS id", "SELECT 2 AS id, 'b' AS name"):
        write = Write(Mode.APPEND, (), (), "", 0)
        versions.append(write_version(table, spark.sql(rows), write, Target()))
    for version, ids in zip(versions, ([1], [1, 2]), strict=True):
        files = Files((place,), format_, version.snapshot)
        context = RunContext(inputs={"spindle://shop/goods": files}, local_folders=())
        found = run(load(f"load_{format_}", "'spindle://shop/goods'"), context)
        assert sorted(row["id"] for row in found) == ids
        assert version.rows == len(ids)
        assert {*found[0]} == {name for name, _ in version.columns}


@pytest.mark.long
@needs_libraries
def test_an_earlier_version_of_a_table_is_loaded(run: Run, tmp_path: Path) -> None:
    place = save(tmp_path, run, "save_delta", "table")
    save(tmp_path, run, "save_delta", "table", "id\n9\n")
    assert run(load("load_delta", place)) == [{"id": 9}]
    assert run(load("load_delta", f"{{path: {place}, versionAsOf: 0}}")) == ROWS


@pytest.mark.long
@needs_libraries
def test_a_table_with_files_elsewhere_is_refused(run: Run, tmp_path: Path) -> None:
    place = Path(save(tmp_path, run, "save_delta", "table"))
    secret = Path(save(tmp_path, run, "save_parquet", "secret"))
    (file,) = secret.glob("*.parquet")
    log = place / "_delta_log" / "00000000000000000000.json"
    log.write_text(re.sub(r'"path":"[^"]+"', f'"path":"{file.as_uri()}"', log.read_text()))
    for checksum in place.glob("_delta_log/.*.crc"):
        checksum.unlink()
    context = RunContext(local_folders=(str(place),))
    with pytest.raises(RunError, match="outside its folder"):
        run(load("load_delta", str(place)), context)


def test_xml_elements_are_rows_and_refer_to_nothing(run: Run, tmp_path: Path) -> None:
    (tmp_path / "leak").write_text("never read")
    (tmp_path / "goods.xml").write_text(
        f'<!DOCTYPE all [<!ENTITY leak SYSTEM "{(tmp_path / "leak").as_uri()}">]>'
        '<all><item id="1"><name>a</name></item><item id="2"><name>b &leak;</name></item></all>'
    )
    rows = run(load("load_xml", f"{{path: '{tmp_path}/goods.xml', rowTag: item, mode: PERMISSIVE}}"))
    assert rows[0]["_id"] == 1
    assert "never read" not in str(rows)
    with pytest.raises(RunError, match="Undeclared general entity") as failure:
        run(load("load_xml", f"'{tmp_path}/goods.xml', item"))
    assert "never read" not in str(failure.value)


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("<all><item><n>1</m></item><item><n>2</n></item></all>", "tag mismatch: n line 1 and m, line 1, column 20"),
        ("<all><item><n>1</n></item><item><n>2</n></item>", "Premature end of data in tag all"),
        ("<all><item><n>1</n></item></all><b>", "Extra content at the end"),
        ("no xml", "Start tag expected"),
    ],
)
def test_xml_files_that_are_not_well_formed_say_so(run: Run, tmp_path: Path, content: str, fault: str) -> None:
    good = "<all><item><n>1</n></item></all>"
    for name, text_ in (("good.xml", good), ("packed.xml.gz", good), ("bad.xml", content)):
        data = text_.encode()
        (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    assert run(load("load_xml", f"'{tmp_path}/[gp]*', item")) == [{"n": 1}, {"n": 1}]
    with pytest.raises(RunError, match=f"bad.xml' is not well-formed XML: .*{fault}"):
        run(load("load_xml", f"'{tmp_path}/*', item"))


@needs_libraries
def test_tables_of_postgresql_are_read_through_the_guard(run: Run, postgres: str) -> None:
    url = make_url(postgres)
    engine = create_engine(postgres)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE IF NOT EXISTS goods AS SELECT 1 AS id, 'a' AS name UNION SELECT 2, 'b'"))
    engine.dispose()
    place = f"jdbc:postgresql://localhost:{url.port}/{url.database}"
    access = "user: '${USER}', password: '${PASSWORD}'"
    secrets = {"USER": url.username or "", "PASSWORD": url.password or ""}
    rows = run(load("load_jdbc", f"{{url: '{place}', table: goods, {access}}}"), **secrets)
    assert sorted(rows, key=lambda row: row["id"]) == ROWS
    query = f"{{url: '{place}', query: 'SELECT max(id) AS most FROM goods', {access}}}"
    assert run(load("load_jdbc", query), **secrets) == [{"most": 2}]
    with pytest.raises(RunError, match="cannot be read") as error:
        run(load("load_jdbc", f"{{url: '{place}', table: goods, {access}}}"), USER="postgres", PASSWORD="wrong-one")
    assert "wrong-one" not in str(error.value)
    text_ = load("load_jdbc", f"{{url: '{place}', table: goods, {access}}}")
    stage = Pipeline.from_yaml(text_).plan(secrets).steps[0].stage
    with pytest.raises(RunError, match="loopback"):
        stage.load(None, RunContext(fetch=CrawlOptions()))  # type: ignore[union-attr]


@pytest.mark.long
@needs_libraries
def test_tables_of_mysql_are_read_through_the_guard(run: Run) -> None:
    if not can_have("mysql"):
        pytest.skip("MySQL's driver is not in SPINDLE_TEST_JARS, and cannot be fetched")
    secrets = {"USER": mysql.USER, "PASSWORD": mysql.PASSWORD}
    goods = "CREATE TABLE goods (id INT, name TEXT, sold TINYINT(1), price DECIMAL(8,2)); "
    with mysql.serve_mysql(f"{goods}INSERT INTO goods VALUES (1, 'ä', 0, 1.50), (2, NULL, 1, 2)") as port:
        place = f"jdbc:mysql://localhost:{port}/shop"
        access = "user: '${USER}', password: '${PASSWORD}'"
        table = load("load_jdbc", f"{{url: '{place}?sslMode=DISABLED&tinyInt1isBit=false', table: goods, {access}}}")
        rows = sorted(run(table, **secrets), key=lambda row: row["id"])
        assert [(row["name"], int(row["sold"]), float(row["price"])) for row in rows] == [("ä", 0, 1.5), (None, 1, 2.0)]
        parts = "partitionColumn: id, lowerBound: 1, upperBound: 3, numPartitions: 2"
        assert len(run(load("load_jdbc", f"{{url: '{place}', table: goods, {parts}, {access}}}"), **secrets)) == 2
        query = load("load_jdbc", f"{{url: '{place}', query: 'SELECT max(id) AS most FROM goods', {access}}}")
        assert run(query, **secrets) == [{"most": 2}]
        with pytest.raises(RunError, match="cannot be read") as error:
            run(query, USER=mysql.USER, PASSWORD="wrong-one")
        assert "wrong-one" not in str(error.value)
    stage = Pipeline.from_yaml(query).plan(secrets).steps[0].stage
    with pytest.raises(RunError, match="loopback"):
        stage.load(None, RunContext(fetch=CrawlOptions()))  # type: ignore[union-attr]


@needs_libraries
def test_a_server_of_mysql_gets_no_file_of_the_machine(run: Run, tmp_path: Path) -> None:
    if not can_have("mysql"):
        pytest.skip("MySQL's driver is not in SPINDLE_TEST_JARS, and cannot be fetched")
    (tmp_path / "secret").write_text("never sent")
    with serve_hostile_mysql(str(tmp_path / "secret")) as server:
        options = "sslMode=DISABLED&connectTimeout=5000&socketTimeout=5000"
        args = f"{{url: 'jdbc:mysql://127.0.0.1:{server.port}/shop?{options}', table: goods, user: u, password: p}}"
        with pytest.raises(RunError, match="cannot be read"):
            run(load("load_jdbc", args))
    assert server.asked
    assert b"never sent" not in server.received


@pytest.mark.parametrize(
    "args",
    [
        "{url: 'jdbc:oracle://h/d', table: t}",
        "{url: 'jdbc:mysql://h1,h2/d', table: t}",
        "{url: 'jdbc:mysql://(host=h,allowLoadLocalInfile=true)/d', table: t}",
        "{url: 'jdbc:mysql://h/d?allowLoadLocalInfile=true', table: t}",
        "{url: 'jdbc:mysql://h/d?%61utoDeserialize=true', table: t}",
        "{url: 'jdbc:mysql://h/d?sslMode=DISABLED&queryInterceptors=evil', table: t}",
        "{url: 'jdbc:mysql://h/d?propertiesTransform=evil', table: t}",
        "{url: 'jdbc:mysql://u:p@h/d', table: t}",
        "{url: 'jdbc:postgresql://h1,h2/d', table: t}",
        "{url: 'jdbc:postgresql://h/d?socketFactory=evil', table: t}",
        "{url: 'jdbc:postgresql://h/d?password=p', table: t}",
        "{url: 'jdbc:postgresql://h/d'}",
        "{url: 'jdbc:postgresql://h/d', table: t, query: q}",
        "{url: 'jdbc:postgresql://h/d', table: t, numPartitions: 2}",
    ],
)
def test_other_addresses_of_databases_are_problems(args: str) -> None:
    with pytest.raises(PipelineError):
        Pipeline.from_yaml(load("load_jdbc", args)).plan()


@pytest.mark.parametrize(
    ("url", "library"),
    [
        ("jdbc:mysql://h/d?sslMode=DISABLED", "mysql"),
        ("jdbc:postgresql://h/mysql", "postgresql"),
        ("${MYSQL_URL}", "mysql"),
        ("${POSTGRESQL_URL}", "postgresql"),
    ],
)
def test_a_database_needs_its_own_driver(url: str, library: str) -> None:
    plan = Pipeline.from_yaml(load("load_jdbc", f"{{url: '{url}', table: t}}")).plan_open()
    assert plan.libraries == {library}
