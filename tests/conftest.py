from __future__ import annotations

import os
import re
import signal
from collections import defaultdict
from collections.abc import Generator, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer

from tests.gate.costs import get_cost
from tests.support import postgres as postgresql
from tests.support.libraries import can_have, has_libraries
from tests.support.s3 import find_bucket
from tests.support.scheduling import ScopeScheduling, end_fixtures
from tests.support.service import DAILY_CALLS, Service, serve_service
from tests.support.site import GatedSite, Site, serve_gated_site, serve_site
from tests.support.trino import HAS_TRINO, trino_environment
from tests.support.webhook_receiver import Receiver, receive_webhooks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.support.api import Server
    from tests.support.oidc_provider import OidcProvider

TESTS = Path(__file__).parent

# The same examples each time, however long they take: what fails is what was changed.
PASSED_OVER = (HealthCheck.too_slow, HealthCheck.function_scoped_fixture)
settings.register_profile("spindle", derandomize=True, deadline=None, suppress_health_check=PASSED_OVER)
settings.load_profile("spindle")


# Fixtures that cost much to start, and how tests and other fixtures of a file ask for them
ASKS = r'(?:def test_\w+|@pytest\.fixture.*\ndef \w+)\([^)]*\b(?:{})\b|(?:usefixtures|getfixturevalue)\("{}"\)'
SHARED = {"spark": re.compile(ASKS.format("spark: SparkSession|run: Run|runners: Runners|make: Make", "spark"))} | {
    name: re.compile(ASKS.format(f"{name}: ", name))
    for name in ("service", "expendable", "customized", "on_s3", "on_postgresql")
}
APART = ("formats",)  # rooms whose tests take as long as those of the others that share the service


def pytest_configure() -> None:
    """Let a bucket be the storage of all services and settings, and Trino their engine, as `bin/test` is told."""
    if os.environ.get("SPINDLE_TEST_STORAGE") == "s3":
        bucket = find_bucket()
        if bucket is None:
            raise pytest.UsageError("--s3 needs SPINDLE_TEST_S3_ENDPOINT, _ACCESS_KEY, _SECRET_KEY and _BUCKET")
        os.environ.update(bucket.environment)
    if os.environ.get("SPINDLE_TEST_ENGINE") == "trino":
        if not HAS_TRINO:
            raise pytest.UsageError("--trino needs SPINDLE_TEST_TRINO and SPINDLE_TEST_TRINO_RULES")
        os.environ.update(trino_environment())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the scopes that cost most first: at the end, short ones share the workers evenly."""
    costs: dict[str, float] = defaultdict(float)
    for path in {item.path for item in items}:
        costs[get_scope(path)] += get_cost(path.relative_to(TESTS.parent).as_posix())
    items.sort(key=lambda item: (-costs[get_scope(item.path)], get_scope(item.path)))
    for item in items:
        if item.get_closest_marker("folder") and os.environ.get("SPINDLE_TEST_STORAGE") == "s3":
            item.add_marker(pytest.mark.skip(reason="it concerns a folder as the storage"))
        if item.get_closest_marker("duckdb") and os.environ.get("SPINDLE_TEST_ENGINE") == "trino":
            item.add_marker(pytest.mark.skip(reason="it concerns DuckDB as the engine of SQL"))


@cache
def find_shared(file: Path) -> str | None:
    """Return the name of the fixture that the tests of a file share with those of others."""
    text = file.read_text()
    return next((name for name, asked in SHARED.items() if asked.search(text) and f"def {name}(" not in text), None)


def get_scope(file: Path) -> str:
    """Return the name of what one worker runs: a file, or all files whose tests share what costs much to start."""
    shared, room = find_shared(file), file.relative_to(TESTS).parts[0]
    return f"{shared} of {room}" if shared == "service" and room in APART else shared or str(file)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Give each test, and what is started for it, a part of the bucket: a storage belongs to one database."""
    if os.environ.get("SPINDLE_TEST_STORAGE") == "s3":
        os.environ["SPINDLE_STORAGE"] = f"{os.environ['SPINDLE_STORAGE'].partition('/part-')[0]}/part-{uuid4().hex}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None]:
    """Stop what the tests of a scope share after the last of them: a worker may go on for half an hour."""
    yield
    if nextitem is None or get_scope(nextitem.path) == get_scope(item.path):
        return
    end_fixtures(item, SHARED.keys() - {find_shared(nextitem.path)})


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ScopeScheduling | None:
    return ScopeScheduling(config, get_scope, log) if config.getvalue("dist") == "loadfile" else None


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name bytes by their length: compressed ones have a time in them, and all workers must collect equal names."""
    return f"{argname} of {len(val)} bytes" if isinstance(val, bytes) else None


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    from pipelines.spark.session import start_session  # not at the top: most tests do without Spark

    libraries = ("delta", "iceberg", "avro", "postgresql") if has_libraries() else ()
    libraries += ("mysql",) if can_have("mysql") else ()
    interrupt = signal.getsignal(signal.SIGINT)
    # a third less CPU than with Java's C2 compiler
    spark = start_session("local[2]", "tests", loads=False, libraries=libraries)
    yield spark
    spark.stop()
    signal.signal(signal.SIGINT, interrupt)  # PySpark's handler asks the session, which has ended


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The API alone, without Dagster; tests use organizations or records of their own."""
    from tests.support.api import start_server

    with start_server(tmp_path_factory.mktemp("api")) as server:
        yield server


@pytest.fixture(scope="module")
def provider() -> Iterator[OidcProvider]:
    """A provider that signs people in, for as long as one file needs it."""
    from tests.support.oidc_provider import serve_provider

    with serve_provider() as provider:
        yield provider


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One running Spindle that tests share: each makes projects of its own. The fetch guard is lifted for loopback.

    Tests may kill its drivers, but none of its own processes except the code server.
    """
    with serve_service(tmp_path_factory.mktemp("service"), {"SPINDLE_MODEL_DAILY_CALLS": str(DAILY_CALLS)}) as service:
        yield service


@pytest.fixture(scope="session")
def customized(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service with what an operator adds; tests take away again what all executions would notice."""
    from tests.support.customized import serve_customized  # not at the top: it imports Spark

    with serve_customized(tmp_path_factory.mktemp("customized")) as service:
        yield service


@pytest.fixture(scope="session")
def on_postgresql(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, postgresql.Cluster]]:
    """A service whose database is a PostgreSQL that tests may kill; it gives up silent drivers after 35 s."""
    with postgresql.cluster() as cluster:
        environment = {"SPINDLE_DATABASE_URL": cluster.url, "SPINDLE_LOST_AFTER_SECONDS": "35"}
        with serve_service(tmp_path_factory.mktemp("postgresql"), environment) as service:
            yield service, cluster


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The URL of a PostgreSQL server on which tests make databases of their own."""
    with postgresql.server() as url:
        yield url


@pytest.fixture
def site() -> Iterator[GatedSite]:
    with serve_gated_site() as site:
        yield site


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receive_webhooks() as receiver:
        yield receiver


@pytest.fixture
def web() -> Iterator[Site]:
    """A site whose pages each test defines."""
    with serve_site() as site:
        yield site
