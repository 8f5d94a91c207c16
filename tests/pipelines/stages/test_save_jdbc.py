"""save_jdbc: rows in tables of PostgreSQL, MariaDB and SQLite, with both engines."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from sqlalchemy import NullPool, create_engine, make_url, text

from pipelines.contract.context import RunContext
from pipelines.errors import PipelineError, RunError
from pipelines.fetch import CrawlOptions
from pipelines.language.engines import EngineName
from pipelines.local.engine_choice import choose_engine
from pipelines.pipeline import Pipeline
from tests.support import mysql, postgres
from tests.support.pipelines import Run, find_problem, load_table, make_runner
from tests.support.site import Site

GOODS = "sku,name,price\na,Lamp,1.50\nb,Cup,2\n"
LATER = "sku,name,price\nb,Mug,3\nc,Rug,4\n"


@dataclass(frozen=True)
class Database:
    """A database with its address in pipelines, and in the language of SQLAlchemy."""

    address: str
    url: str
    user: str = ""
    password: str = ""

    def stage(self, mode: str, more: str = "") -> str:
        access = "user: '${USER}', password: '${PASSWORD}'" if self.user else ""
        args = ", ".join(filter(None, (f"url: '{self.address}', table: goods, mode: {mode}", access, more)))
        return f"- {{stage: save_jdbc, args: [{{{args}}}]}}\n"

    def execute(self, statement: str) -> list[tuple[Any, ...]]:
        engine = create_engine(self.url, poolclass=NullPool)
        with engine.begin() as connection:
            found = connection.execute(text(statement))
            return [tuple(row) for row in found] if found.returns_rows else []

    @property
    def secrets(self) -> dict[str, str]:
        return {"USER": self.user, "PASSWORD": self.password} if self.user else {}


@pytest.fixture(scope="module")
def mariadb() -> Generator[str]:
    """The address of a server whose database `shop` belongs to `mysql.USER`."""
    if find_spec("pymysql") is None:
        pytest.skip("PyMySQL is not installed")
    with mysql.serve_mysql(f"GRANT ALL ON shop.* TO {mysql.USER}@'127.0.0.1'") as port:
        yield f"mysql+pymysql://{mysql.USER}:{mysql.PASSWORD}@127.0.0.1:{port}/"


@contextmanager
def open_database(kind: str, folder: Path, server: Callable[[], str]) -> Generator[Database]:
    if kind == "sqlite":
        yield Database(f"jdbc:sqlite:{folder}/shop.sqlite", f"sqlite:///{folder}/shop.sqlite")
    elif kind == "mysql":
        url = server()
        found = Database(f"jdbc:mysql://localhost:{make_url(url).port}/shop", f"{url}shop", mysql.USER, mysql.PASSWORD)
        for statement in ("DROP DATABASE shop", "CREATE DATABASE shop CHARACTER SET utf8mb4"):
            replace(found, url=url).execute(statement)
        yield found
    else:
        with postgres.new_database(server()) as named:
            url = make_url(named)
            place = f"localhost:{url.port}/{url.database}"
            driven = url.set(drivername="postgresql+psycopg").render_as_string(hide_password=False)
            yield Database(f"jdbc:postgresql://{place}", driven, url.username or "", url.password or "")


@pytest.fixture(params=["postgresql", "mysql", "sqlite"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[Database]:
    server = "mariadb" if request.param == "mysql" else "postgres"
    with open_database(request.param, tmp_path, lambda: request.getfixturevalue(server)) as database:
        yield database


def test_rows_are_appended_merged_and_replaced(run: Run, database: Database, tmp_path: Path) -> None:
    def save(csv: str, mode: str, more: str = "") -> list[tuple[Any, ...]]:
        rows = run(load_table(tmp_path, csv, database.stage(mode, more)), **database.secrets)
        assert len(rows) == 2, "rows pass on unchanged"
        return database.execute("SELECT sku, name, price FROM goods ORDER BY sku, name")

    first = [("a", "Lamp", "1.50"), ("b", "Cup", "2")]
    assert save(GOODS, "append") == first
    assert save(GOODS, "append") == sorted([*first, *first])
    assert save(GOODS, "overwrite") == first
    assert save(LATER, "merge", "keys: [sku]") == [first[0], ("b", "Mug", "3"), ("c", "Rug", "4")]
    assert save("sku,price\nc,5\nd,6\n", "merge", "keys: [sku]")[2:] == [("c", "Rug", "5"), ("d", None, "6")]


def test_values_keep_their_types(run: Run, database: Database, site: Site) -> None:
    base = site.serve({"/": "<h1 class=x>é 'q'</h1>"})
    texts = (
        f"fetch: {{url: '{base}/'}}\npipeline:\n"
        "- stage: extract\n"
        "  args: [{selector: h1, as: title}, {selector: h1, method: attrs}, {selector: h2, as: none}]\n"
        f"{database.stage('append')}spindle: {{keepColumns: [_status, _fetchedAt]}}\n"
    )
    run(texts, **database.secrets)
    ((title, attributes, nothing, status),) = database.execute("SELECT title, attrs, none, _status FROM goods")
    assert (title, nothing, status) == ("é 'q'", None, 200)
    assert attributes in ({"class": "x"}, '{"class": "x"}')
    ((year,),) = database.execute('SELECT substr(cast("_fetchedAt" AS char(10)), 1, 2) FROM goods'.replace(
        '"', "" if "mysql" in database.url else '"'))  # fmt: skip
    assert year == "20"


def test_a_merge_that_fails_leaves_the_table_as_it_was(run: Run, database: Database, tmp_path: Path) -> None:
    run(load_table(tmp_path, GOODS, database.stage("append")), **database.secrets)
    wrong = [
        ("sku,name\nz,1\nz,2\n", "line 3: save_jdbc .* several rows have the same keys .sku 'z'.; put a dedup of sku"),
        ("sku,name\nz,1\n,2\n", "a row has no value in the key 'sku'"),
        ("sku,colour\nz,red\n", "the table 'goods' has no column 'colour': add it to the table"),
    ]
    for csv, message in wrong:
        with pytest.raises(RunError, match=message):
            run(load_table(tmp_path, csv, database.stage("merge", "keys: [sku]")), **database.secrets)
    assert database.execute("SELECT sku FROM goods ORDER BY sku") == [("a",), ("b",)]
    leftover = (str(name) for (name,) in database.execute(
        "SELECT name FROM sqlite_master" if database.url.startswith("sqlite") else
        "SELECT table_name FROM information_schema.tables WHERE table_name LIKE '%spindle%'"))  # fmt: skip
    assert not [name for name in leftover if "spindle" in name]


def test_a_later_attempt_does_not_append_again(run: Run, database: Database, tmp_path: Path) -> None:
    if database.url.startswith("sqlite"):
        pytest.skip("a service writes no file of SQLite")
    first = RunContext(author="execution-1", saves_folder=str(tmp_path / "saves"))
    for context in (first, first, replace(first, author="execution-2")):
        run(load_table(tmp_path, GOODS, database.stage("append")), context, **database.secrets)
    assert database.execute("SELECT count(*) FROM goods") == [(4,)]


def test_a_table_of_the_user_keeps_its_types_and_other_columns(run: Run, database: Database, tmp_path: Path) -> None:
    database.execute("CREATE TABLE goods (id integer, SKU varchar(20), price numeric(8,2), note varchar(20))")
    database.execute("INSERT INTO goods VALUES (1, 'a', 9, 'kept')")
    for mode, more in (("merge", "keys: [sku]"), ("append", "")):
        run(load_table(tmp_path, "sku,price\na,1.50\n", database.stage(mode, more)), **database.secrets)
    found = database.execute("SELECT id, price, note FROM goods ORDER BY id")
    assert sorted(((row[0], float(row[1]), row[2]) for row in found), key=str) == [(1, 1.5, "kept"), (None, 1.5, None)]


def test_wrong_passwords_and_forbidden_hosts_end_the_run_before_its_pages(
    run: Run, site: Site, tmp_path: Path, postgres: str
) -> None:
    base = site.serve({"/": "<h1>S</h1>"})
    with open_database("postgresql", tmp_path, lambda: postgres) as database:
        crawl = f"fetch: {{url: '{base}/'}}\npipeline:\n- {{stage: extract, args: [{{selector: h1, as: name}}]}}\n"
        wrong = crawl + database.stage("append") + "spindle: {engine: local}\n"
        with pytest.raises(RunError, match=r"the database at localhost:.* cannot be reached: .*password") as error:
            run(wrong, USER=database.user, PASSWORD="wrong-one")
        assert "wrong-one" not in str(error.value)
        plan = Pipeline.from_yaml(wrong).plan(database.secrets)
        assert database.password not in str(plan)
        stage: Any = plan.steps[-2].stage
        with pytest.raises(RunError, match="loopback"):
            stage.prepare(RunContext(fetch=CrawlOptions()))
        assert "/" not in site.requests


def test_a_service_writes_no_file_of_sqlite(run: Run, tmp_path: Path) -> None:
    stage = f"- {{stage: save_jdbc, args: ['jdbc:sqlite:{tmp_path}/shop.sqlite', goods]}}"
    with pytest.raises(RunError, match=r"line 3: save_jdbc .* a service writes no file of SQLite"):
        run(load_table(tmp_path, GOODS, stage), RunContext(saves_folder=str(tmp_path / "saves")))
    assert not (tmp_path / "shop.sqlite").exists()


@pytest.mark.long
def test_rows_of_spark_are_written_too(spark: SparkSession, tmp_path: Path) -> None:
    run = make_runner(lambda: spark, tmp_path, EngineName.AUTO)
    with open_database("sqlite", tmp_path, str) as database:
        query = '- {stage: sql_query, args: ["SELECT sku, cast(price AS decimal(8,2)) AS price FROM rows"]}\n'
        merge = database.stage("merge", "keys: [sku]")
        for csv in (GOODS, LATER):
            run(load_table(tmp_path, csv, query + merge))
        assert database.execute("SELECT * FROM goods ORDER BY sku") == [("a", "1.50"), ("b", "3.00"), ("c", "4.00")]


def test_it_needs_no_spark(tmp_path: Path) -> None:
    stage = "- {stage: save_jdbc, args: ['jdbc:postgresql://h/d', goods]}"
    assert not choose_engine(Pipeline.from_yaml(load_table(tmp_path, GOODS, stage)).plan()).runs_on_spark


@pytest.mark.parametrize(
    ("args", "code"),
    [
        ("{url: 'jdbc:postgresql://h/d', table: t, mode: merge}", "missing-argument"),
        ("{url: 'jdbc:postgresql://h/d', table: t, keys: [name]}", "conflicting-arguments"),
        ("{url: 'jdbc:postgresql://h/d', table: t, mode: merge, keys: [_url]}", "reserved-column"),
        ("{url: 'jdbc:postgresql://h/d', table: t, mode: merge, keys: [nmae]}", "unknown-column"),
        ("{url: 'jdbc:postgresql://h/d', table: t, mode: ignore}", "unknown-value"),
        ("{url: 'jdbc:postgresql://h/d?socketFactory=evil', table: t}", "invalid-argument"),
        ("{url: 'jdbc:mysql://h/d?allowLoadLocalInfile=true', table: t}", "invalid-argument"),
        ("{url: 'jdbc:sqlite::memory:', table: t}", "invalid-argument"),
        ("{url: 'jdbc:sqlite:file:a?mode=rw', table: t}", "invalid-argument"),
        ("{url: 'jdbc:oracle://h/d', table: t}", "invalid-argument"),
    ],
)
def test_wrong_arguments_are_problems(args: str, code: str) -> None:
    extract = "fetch: {url: 'http://a.test/'}\npipeline:\n- {stage: extract, args: [{selector: h1, as: name}]}\n"
    assert find_problem(f"{extract}- {{stage: save_jdbc, args: [{args}]}}").code == code


def test_a_problem_names_the_modes() -> None:
    with pytest.raises(PipelineError, match="append"):
        Pipeline.from_yaml("pipeline: [{stage: save_jdbc, args: ['jdbc:sqlite:a', t, ignore]}]").plan()
