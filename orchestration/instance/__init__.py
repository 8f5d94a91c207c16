"""Dagster's instance of one data folder: `python -m orchestration.instance PORT` writes DATA/dagster."""

from __future__ import annotations

import json
import os
from importlib.resources import files
from pathlib import Path

from sqlalchemy import make_url

from core.infra.database import DAGSTER_DATABASE, create_dagster_schema, dagster_database_url
from core.infra.settings import Settings

LOCATION = "spindle"


def prepare(settings: Settings, code_port: int) -> Path:
    """Writes dagster.yaml and a workspace.yaml whose code server answers at `code_port`; returns the folder."""
    home = settings.data.resolve() / "dagster"
    home.mkdir(parents=True, exist_ok=True)
    url = dagster_database_url(settings)
    (home / "dagster.yaml").write_text(_template("dagster.yaml") + (_template("postgresql.yaml") if url else ""))
    if url:
        create_dagster_schema(url)
    _create_storage(home, url)
    server = {"host": "127.0.0.1", "port": code_port, "location_name": LOCATION}
    (home / "workspace.yaml").write_text(json.dumps({"load_from": [{"grpc_server": server}]}, indent=2) + "\n")
    return home


def run_socket(home: Path) -> str:
    """Where the run server listens: the shorter of two spellings, as a socket's path may have 107 bytes at most."""
    return min(str(home / "runs.sock"), os.path.relpath(home / "runs.sock"), key=len)


def run_pidfile(home: Path, run_id: str) -> Path:
    return home / "runs" / run_id


def _template(name: str) -> str:
    return files("orchestration.instance").joinpath(name).read_text()


def _create_storage(home: Path, url: str | None) -> None:
    """Once: Dagster's own processes would all create it at the same moment, and trip over each other."""
    marker = home / "storage-created"
    where = make_url(url).set(password=None).render_as_string() if url else "files"
    if marker.exists() and marker.read_text() == where:
        return
    from dagster import DagsterInstance  # takes a second, which later starts save

    os.environ["DAGSTER_HOME"] = str(home)
    os.environ.update({DAGSTER_DATABASE: url} if url else {})
    with DagsterInstance.get():
        marker.write_text(where)
