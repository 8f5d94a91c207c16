"""Dagster's instance of one data folder: `python -m orchestration.instance PORT` writes DATA/dagster."""

from __future__ import annotations

import json
import os
from importlib.resources import files
from pathlib import Path

LOCATION = "spindle"


def prepare(data: Path, code_port: int) -> Path:
    """Writes dagster.yaml and a workspace.yaml whose code server answers at `code_port`; returns the folder."""
    home = data.resolve() / "dagster"
    home.mkdir(parents=True, exist_ok=True)
    (home / "dagster.yaml").write_text(files("orchestration.instance").joinpath("dagster.yaml").read_text())
    _create_storage(home)
    server = {"host": "127.0.0.1", "port": code_port, "location_name": LOCATION}
    (home / "workspace.yaml").write_text(json.dumps({"load_from": [{"grpc_server": server}]}, indent=2) + "\n")
    return home


def run_socket(home: Path) -> str:
    """Where the run server listens: the shorter of two spellings, as a socket's path may have 107 bytes at most."""
    return min(str(home / "runs.sock"), os.path.relpath(home / "runs.sock"), key=len)


def run_pidfile(home: Path, run_id: str) -> Path:
    return home / "runs" / run_id


def _create_storage(home: Path) -> None:
    """Once: Dagster's own processes would all create it at the same moment, and trip over each other."""
    marker = home / "storage-created"
    if marker.exists():
        return
    from dagster import DagsterInstance  # takes a second, which later starts save

    os.environ["DAGSTER_HOME"] = str(home)
    with DagsterInstance.get():
        marker.touch()
