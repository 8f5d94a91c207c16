"""The Dagster instance of a data folder: `python -m orchestration.instance PORT` writes DATA/dagster."""

from __future__ import annotations

import json
import os
from importlib.resources import files
from pathlib import Path

from sqlalchemy import make_url
from sqlalchemy.schema import CreateSchema

from core.errors import BadInput
from core.infra.commit_mark import CommitMark
from core.infra.database import COMMITS, database_url, make_engine, translate_errors
from core.infra.settings import Settings

LOCATION = "spindle"
CRON_JOB = "call_cron_job"  # Dagster's job that calls cron jobs
DAGSTER_SCHEMA = "dagster"
DAGSTER_DATABASE = "DAGSTER_DATABASE_URL"  # the environment variable that postgresql.yaml refers to


def prepare_instance(settings: Settings, code_port: int) -> Path:
    """Write dagster.yaml, and a workspace.yaml with the code server at `code_port`; return their folder."""
    if settings.dagster.workspace:
        _check_workspace(settings.dagster.workspace)
    home = settings.data.resolve() / "dagster"
    home.mkdir(parents=True, exist_ok=True)
    url = get_dagster_database_url(settings)
    (home / "dagster.yaml").write_text(
        _read_template("dagster.yaml").format(days=settings.retention.run_days)
        + (_read_template("postgresql.yaml") if url else "")
    )
    if url:
        _create_schema(settings)
    _create_storage(settings, home, url)
    server = {"host": "127.0.0.1", "port": code_port, "location_name": LOCATION}
    (home / "workspace.yaml").write_text(json.dumps({"load_from": [{"grpc_server": server}]}, indent=2) + "\n")
    return home


def get_dagster_database_url(settings: Settings) -> str | None:
    """Return the URL of Dagster's schema in PostgreSQL. With SQLite, Dagster uses its own files and has no URL."""
    url = make_url(database_url(settings))
    if url.get_backend_name() == "sqlite":
        return None
    url = url.set(drivername="postgresql").update_query_dict({"options": f"-csearch_path={DAGSTER_SCHEMA}"})
    return url.render_as_string(hide_password=False)


def _create_schema(settings: Settings) -> None:
    """Create the schema unless it exists; raise Unavailable when the database does not answer."""
    engine = make_engine(database_url(settings))
    try:
        with translate_errors(), engine.begin() as connection:
            connection.execute(CreateSchema(DAGSTER_SCHEMA, if_not_exists=True))
    finally:
        engine.dispose()


def _check_workspace(path: Path) -> None:
    """Raise BadInput when Dagster cannot read the user's workspace.yaml; it does not load the code locations."""
    from orchestration.dagster_internals import read_location_names  # imports Dagster, which few starts need

    try:
        names = read_location_names(path)
    except Exception as error:  # Dagster has many types for faults of a file
        reason = " ".join(str(error).split())
        raise BadInput(f"SPINDLE_DAGSTER_WORKSPACE: {path} is not a workspace.yaml of Dagster: {reason}") from None
    if LOCATION in names:
        sentence = f"{path} has a code location named '{LOCATION}', which is that of the service"
        raise BadInput(f"SPINDLE_DAGSTER_WORKSPACE: {sentence}. Set another location_name.")


def _read_template(name: str) -> str:
    return files("orchestration.instance").joinpath(name).read_text()


def get_mark(settings: Settings) -> CommitMark | None:
    """Return the mark of the rows that this instance's processes write to Dagster's tables in PostgreSQL."""
    is_postgresql = get_dagster_database_url(settings) is not None
    return CommitMark(settings.data.resolve() / "dagster" / COMMITS) if is_postgresql else None


def open_few_connections(settings: Settings, connections: int) -> None:
    """Let this process have so many connections to Dagster's tables in PostgreSQL."""
    if (mark := get_mark(settings)) is not None:
        from orchestration.dagster_database_internals import share_connections  # imports Dagster

        share_connections(connections, DAGSTER_SCHEMA, mark)


def _create_storage(settings: Settings, home: Path, url: str | None) -> None:
    """Create the storage once, before Dagster's processes would all try to at the same time."""
    marker = home / "storage-created"
    where = make_url(url).set(password=None).render_as_string() if url else "files"
    if marker.exists() and marker.read_text() == where:
        return
    from dagster import DagsterInstance  # takes a second, which later starts save

    os.environ["DAGSTER_HOME"] = str(home)
    os.environ.update({DAGSTER_DATABASE: url} if url else {})
    open_few_connections(settings, settings.database.dagster_connections)
    with DagsterInstance.get():
        marker.write_text(where)
