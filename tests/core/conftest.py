from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from shutil import copy

import pytest
from pydantic import SecretStr
from sqlalchemy import text

from core.infra.database import Database, open_database
from core.infra.migrations import migrate
from core.infra.settings import Settings
from core.tables import Base
from tests.support.postgres import new_database
from tests.support.shop import Shop, make_shop

CORE = Path(__file__).parent


# Where the databases differ: locks, migrations, updates by several at once, dialects of SQL, pages by keys, unique
# names. These modules and tests run on both; all others, whose statements are plain, on SQLite alone.
BOTH_DATABASES = (
    "data/sql/test_query_limit.py",
    "definitions/cron_jobs/test_cron_jobs.py::test_a_tick_fired_by_many_has_one_call",
    "definitions/cron_jobs/test_cron_jobs.py::test_calls_older_than_a_week_are_deleted_except_for_the_last_ones",
    "definitions/cron_jobs/test_cron_jobs.py::test_names_are_unique_in_a_namespace_of_an_organization",
    "definitions/generic_tables/",
    "definitions/identity/test_api_keys.py::test_processes_that_start_at_once_make_one_organization_and_one_key",
    "definitions/identity/test_people.py",
    "definitions/test_change_reader.py",
    "integrations/packages/test_service.py",
    "integrations/test_cleanup.py",
    "integrations/test_shared_values.py",
    "integrations/test_key_rotation.py::test_everything_opens_only_under_the_new_key",
    "integrations/webhooks/test_deliver.py::test_a_delivery_claimed_by_a_dead_process_is_sent_again",
    "integrations/webhooks/test_deliver.py::test_an_organization_with_many_receivers_leaves_room_for_others",
    "integrations/webhooks/test_deliver.py::test_of_secrets_that_are_made_at_once_the_last_one_follows_the_one_before",
    "infra/",
    "lifecycle/executions/test_attempts.py",
    "lifecycle/executions/test_organization_limits.py",
    "lifecycle/executions/test_outbox.py",
    "lifecycle/executions/test_pools.py",
    "lifecycle/executions/test_publish_output.py::test_appends_of_two_jobs_to_one_path_add_up",
    "lifecycle/executions/test_publish_rejected.py::test_a_partition_is_compared_with_others_of_its_values",
    "lifecycle/executions/test_queue.py",
    "lifecycle/executions/test_reports.py::test_characters_that_cannot_be_stored_are_replaced",
    "lifecycle/executions/test_reports.py::test_one_run_claims",
    "lifecycle/executions/test_retry.py::test_the_same_idempotency_key_retries_once",
    "lifecycle/executions/test_states.py",
    "lifecycle/firing/test_once.py",
    "lifecycle/firing/test_schedules.py::test_two_daemons_fire_a_tick_once",
    "lifecycle/outlines/test_outlines.py::test_plans_are_stored_with_agents_and_outlined_anew_where_they_are_missing",
    "lifecycle/submission/test_submit.py",
    "lifecycle/test_tasks.py::test_pages",
    "lifecycle/test_tasks.py::test_twenty_starts_at_once_start_one",
    "lifecycle/usage/test_bills.py",
    "lifecycle/usage/test_periods.py",
    "test_nouns.py::TestJobs",
    "test_nouns.py::TestProjects",
    "training/test_trainer.py::test_a_second_local_training_waits",
)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    given = {mark.args[0] for mark in metafunc.definition.iter_markers("parametrize")}
    if "kind" in metafunc.fixturenames and "kind" not in given:
        name = f"{metafunc.definition.path.relative_to(CORE).as_posix()}::{metafunc.function.__qualname__}"
        metafunc.parametrize("kind", ["sqlite", "postgresql"] if name.startswith(BOTH_DATABASES) else ["sqlite"])


@pytest.fixture
def empty(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Settings]:
    """An instance whose database, of either kind, has no tables yet."""
    if kind == "sqlite":
        yield Settings(data=tmp_path / "data")
        return
    with new_database(request.getfixturevalue("postgres")) as url:
        yield Settings(data=tmp_path / "data", database_url=SecretStr(url))


@pytest.fixture
def settings(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> Settings:
    """An instance whose database, of either kind, is migrated and has no rows but those of a shop, if there is one."""
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    if kind == "sqlite":
        if "stocked_shop" in request.fixturenames:  # the test has the shop
            source = request.getfixturevalue("stocked_shop").settings.data / "spindle.db"
        else:
            source = request.getfixturevalue("migrated_sqlite")
        copy(source, data / "spindle.db")
        return Settings(data=data)
    settings = Settings(data=data, database_url=SecretStr(request.getfixturevalue("migrated_postgres")))
    database = open_database(settings)
    with database.write() as session:  # a fraction of the time of TRUNCATE, which makes new files
        session.execute(text("SET LOCAL session_replication_role = replica"))
        session.execute(text("; ".join(f"DELETE FROM {table}" for table in Base.metadata.tables)))
    database.close()
    return settings


@pytest.fixture(scope="session")
def migrated_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = tmp_path_factory.mktemp("migrated")
    migrate(Settings(data=data))
    return data / "spindle.db"


@pytest.fixture(scope="session")
def stocked_shop(migrated_sqlite: Path, tmp_path_factory: pytest.TempPathFactory) -> Shop:
    """A shop that is made once, and whose database is copied for each test, in a tenth of the time."""
    settings = Settings(data=tmp_path_factory.mktemp("stocked"))
    copy(migrated_sqlite, settings.data / "spindle.db")
    with closing(open_database(settings)) as database:
        return make_shop(settings, database)


@pytest.fixture(scope="session")
def migrated_postgres(postgres: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with new_database(postgres) as url:
        migrate(Settings(data=tmp_path_factory.mktemp("migrated"), database_url=SecretStr(url)))
        yield url


@pytest.fixture
def database(settings: Settings) -> Iterator[Database]:
    database = open_database(settings)
    yield database
    database.close()


@pytest.fixture
def shop(kind: str, settings: Settings, database: Database, stocked_shop: Shop) -> Shop:
    if kind == "sqlite":
        return replace(stocked_shop, settings=settings, database=database)
    return make_shop(settings, database)


@pytest.fixture
def other_shop(settings: Settings, database: Database) -> Shop:
    """The same in another organization."""
    return make_shop(settings, database, "rival")
