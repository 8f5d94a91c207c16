"""Metadata databases of earlier versions: their rows as JSON, for the tables that their revision makes.

`python -m tests.support.old_databases` stores one of today's revision. Do that once for each new migration.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from datetime import date, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from alembic import command
from alembic.script import ScriptDirectory
from sqlalchemy import Date, DateTime, LargeBinary, MetaData, Table, insert, select

from core.infra.migrations import _connect, _create_config
from core.infra.settings import Settings
from core.tables import Base

FOLDER = Path(__file__).parents[1] / "core/infra/stored"
VERSIONS = Path(__file__).parents[2] / "core/infra/migrations/versions"


def list_revisions() -> list[str]:
    """The revisions of which there is a stored database."""
    return sorted(each.stem for each in FOLDER.glob("*.json"))


def compute_digests() -> dict[str, str]:
    """The digest of each migration, by revision: one that has landed is not edited any more."""
    return {each.name[:4]: hashlib.sha256(each.read_bytes()).hexdigest()[:16] for each in VERSIONS.glob("0*.py")}


def load_database(settings: Settings, revision: str) -> Mapping[str, Any]:
    """Make the tables of the revision, with the stored rows; return what is stored beside the rows."""
    stored = json.loads((FOLDER / f"{revision}.json").read_text())
    settings.data.mkdir(parents=True, exist_ok=True)
    with _connect(settings) as connection:
        command.upgrade(_create_config(connection), revision)
        tables = MetaData()
        for name, rows in stored["rows"].items():
            table = Table(name, tables, autoload_with=connection)
            for row in rows:
                connection.execute(insert(table).values({key: _read(table.c[key].type, row[key]) for key in row}))
    return stored


def store_database(settings: Settings, **beside: Any) -> Path:
    """Store the rows of a database, which is at the newest revision."""
    with _connect(settings) as connection:
        rows = {
            table.name: [
                {key: _write(value) for key, value in row.items()}
                for row in connection.execute(
                    select(Table(table.name, MetaData(), autoload_with=connection))
                ).mappings()
            ]
            for table in Base.metadata.sorted_tables
            if table.name != "installation"  # of a place that is no more
        }
        [revision] = ScriptDirectory.from_config(_create_config(connection)).get_heads()
    path = FOLDER / f"{revision}.json"
    digests = {each: digest for each, digest in compute_digests().items() if each <= revision}
    path.write_text(json.dumps({**beside, "migrations": digests, "rows": rows}, indent=1) + "\n")
    return path


def _write(value: Any) -> Any:
    if isinstance(value, datetime | date):
        return value.isoformat()
    return {"bytes": base64.b64encode(value).decode()} if isinstance(value, bytes) else value


def _read(type_: Any, value: Any) -> Any:
    if value is None:
        return None
    if isinstance(type_, DateTime | Date):
        return (datetime if isinstance(type_, DateTime) else date).fromisoformat(value)
    return base64.b64decode(value["bytes"]) if isinstance(type_, LargeBinary) else value


def main() -> None:
    from tests.api.world import make_world
    from tests.support.api import start_server

    with TemporaryDirectory() as folder, start_server(Path(folder) / "data", secret_key=SECRET_KEY) as server:
        api = server.caller("kept", "super_admin")
        world = make_world(api, "kept")
        print(store_database(server.settings, key=api.key, organization=api.organization_id, world=world))


SECRET_KEY = base64.b64encode(bytes(range(32))).decode()

if __name__ == "__main__":
    main()
