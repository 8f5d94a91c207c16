"""A Trino that begins with nothing but the files of docs/storage.md reads what Spindle publishes, and keeps it apart.

SPINDLE_TEST_TRINO_HOME names an unpacked Trino, for which a JDK of version 24 or newer is looked for beside `java`.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import make_url

from core.data.sql.embedded.pool import Pool
from core.data.sql.service import Query
from core.data.sql.trino.access import name_user
from core.data.sql.trino.client import TrinoClient
from core.errors import SpindleError, Unavailable
from tests.support.s3 import Bucket, get_bucket
from tests.support.service import CLONE, free_port, wait_until
from tests.support.warehouse import PRODUCT_COLUMNS, PRODUCTS, Warehouse, make_warehouse

pytestmark = [pytest.mark.long, pytest.mark.folder]

HOME = os.environ.get("SPINDLE_TEST_TRINO_HOME")
PAGE = CLONE / "docs" / "storage.md"
SECTION = re.compile(r"^## Trino over the storage\n(.*?)(?=^## |\Z)", re.DOTALL | re.MULTILINE)
BLOCK = re.compile(r"((?:(?!```).)*?)```(\w+)\n(.*?)```", re.DOTALL)
TWIN = re.compile(r"`(etc/\S+)` is the same with `([^`]+)`(,?\s+and\s+without\s+the\s+procedure)?")
START_SECONDS = 300
JAVA_VERSION = 24
SERVER = """\
coordinator=true
node-scheduler.include-coordinator=true
http-server.http.port={port}
discovery.uri=http://127.0.0.1:{port}
query.max-memory=400MB
query.max-memory-per-node=400MB
memory.heap-headroom-per-node=200MB
web-ui.enabled=false
access-control.config-files={etc}/access-control.properties
"""
FORMATS = ("parquet", "delta", "iceberg")


def find_java() -> Path:
    """Return a JDK's `java` that is new enough for Trino; skip the test without one."""
    java = Path(shutil.which("java") or "java").resolve()
    for release in java.parents[2].glob("*/release"):
        version = re.search(r'^JAVA_VERSION="(\d+)', release.read_text(), re.MULTILINE)
        if version and int(version[1]) >= JAVA_VERSION and (release.parent / "bin" / "java").exists():
            return release.parent / "bin" / "java"
    pytest.skip(f"Trino needs a JDK of version {JAVA_VERSION} or newer")


def read_files() -> dict[str, str]:
    """Return the files of the page by their paths, and the statements for the database of Iceberg by `sql`."""
    section = SECTION.search(PAGE.read_text())
    assert section is not None
    files: dict[str, str] = {}
    for before, language, text in BLOCK.findall(section[1]):
        if language == "sql" and "iceberg_tables" in text:
            files["sql"] = text
        elif language == "json":
            files.setdefault("etc/rules.json", text)
        elif named := re.search(r"`(etc/\S+\.properties)`", before):
            files[named[1]] = text
            for twin, line, without_procedure in TWIN.findall(before):
                lines = [each for each in text.splitlines() if not (without_procedure and "procedure" in each)]
                files[twin] = "\n".join([*lines, line, ""])
    return files


@pytest.fixture(scope="module")
def bucket() -> Bucket:
    return get_bucket()


@pytest.fixture(scope="module")
def trino(bucket: Bucket, postgres: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Start Trino from the files, with this machine's addresses in them; the settings that select it."""
    if HOME is None:
        pytest.skip("SPINDLE_TEST_TRINO_HOME names no Trino")
    java, folder, port = find_java(), tmp_path_factory.mktemp("trino"), free_port()
    files = read_files()
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("CREATE DATABASE iceberg")
    database = make_url(postgres).set(database="iceberg")
    with psycopg.connect(database.render_as_string(hide_password=False)) as connection:
        connection.execute(files.pop("sql"))
    replaced = {
        "/var/lib/trino": str(folder),
        "/etc/trino": str(folder / "etc"),
        "https://s3.example.org": bucket.endpoint,
        "eu-central-1": "us-east-1",
        "s3://lake/iceberg": f"{bucket.address}/iceberg",
        "db.example.org": f"{database.host}:{database.port}",
    }
    files["etc/config.properties"] = SERVER.format(port=port, etc=folder / "etc")
    for name, text in files.items():
        for example, own in replaced.items():
            text = text.replace(example, own)
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    for name in ("data", "metastore/hive", "metastore/delta"):
        (folder / name).mkdir(parents=True)
    environment = {
        "S3_ACCESS_KEY_ID": bucket.access_key,
        "S3_SECRET_ACCESS_KEY": bucket.secret_key,
        "ICEBERG_USER": database.username or "",
        "ICEBERG_PASSWORD": database.password or "",
    }
    options = {
        "node.environment": "test",
        "node.data-dir": folder / "data",
        "node.bind-ip": "127.0.0.1",
        "node.internal-address": "127.0.0.1",
        "plugin.dir": f"{HOME}/plugin",
        "catalog.config-dir": folder / "etc/catalog",
        "config": folder / "etc/config.properties",
    }
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [java, "-cp", f"{HOME}/lib/*", "-Xmx1G", "-XX:+UseG1GC", "-Djdk.attach.allowAttachSelf=true",
             "--enable-native-access=ALL-UNNAMED", "--sun-misc-unsafe-memory-access=allow",
             "--add-modules=jdk.incubator.vector", *(f"-D{name}={value}" for name, value in options.items()),
             "io.trino.server.TrinoServer"],
            cwd=folder, env={**os.environ, **environment}, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
    try:
        wait_until(
            lambda: process.poll() is not None or "SERVER STARTED" in (folder / "log").read_text(), START_SECONDS
        )
        assert process.poll() is None, (folder / "log").read_text()[-3000:]
        yield {"trino": f"http://127.0.0.1:{port}", "trino_rules": str(folder / "etc/rules.json")}
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.fixture(params=["bucket", "folder"])
def warehouse(
    request: pytest.FixtureRequest,
    trino: dict[str, str],
    bucket: Bucket,
    tmp_path: Path,
    pool: Pool,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Warehouse]:
    monkeypatch.setattr("tests.support.trino.ADDRESS", trino["trino"])
    monkeypatch.setattr("tests.support.trino.RULES", trino["trino_rules"])
    yield from make_warehouse(tmp_path, pool, "trino", bucket if request.param == "bucket" else None)


def has_workers(warehouse: Warehouse, sql: str) -> bool:
    """Return whether Trino uses workers for a catalog: it begins so some moments after it says that it has started."""
    try:
        warehouse.rows(sql)
    except Unavailable:
        return False
    return True


def test_tables_of_each_format_are_read_by_their_organization_alone(warehouse: Warehouse) -> None:
    for format_ in FORMATS:
        warehouse.publish("acme", "shop", f"goods_{format_}", PRODUCTS, PRODUCT_COLUMNS, format_)
        sql = f"SELECT id, name, price FROM shop.goods_{format_} ORDER BY id"
        wait_until(partial(has_workers, warehouse, sql), START_SECONDS)
        assert warehouse.rows(sql) == PRODUCTS.to_pylist(), format_
        with pytest.raises(SpindleError) as error:
            warehouse.queries.run(warehouse.caller("rival"), Query(sql))
        assert error.value.details[0].code == "unknown-table"
    reader, schema = (name_user(warehouse.ids[each]) for each in ("rival", "acme"))
    client = TrinoClient(warehouse.settings.trino)
    table = client.fetch(f"SHOW TABLES FROM hive.{schema}")[0][0]
    for catalog in ("hive", "hive_ro"):
        with pytest.raises(SpindleError, match="Access Denied"):
            client.fetch(f"SELECT * FROM {catalog}.{schema}.{table}", reader)
