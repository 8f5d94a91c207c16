"""What Trino itself shows of the tables that are registered in it, to clients of its own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from core.data.columns import Column
from core.data.sql.service import open_sql_engine
from core.data.sql.trino.client import TrinoClient
from core.infra.settings import Settings
from core.infra.storage import open_storage
from tests.core.data.sql.test_contract import ORGANIZATION, make_table, store
from tests.support.trino import trino_settings


def test_columns_have_the_descriptions_of_the_pipeline(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path, **trino_settings())
    storage, client = open_storage(settings.storage), TrinoClient(settings.trino)
    for folder in ("c", "d"):
        store(storage, f"{ORGANIZATION}/{folder}/part-0.parquet", pa.table({"id": [1], "name": ["kettle"]}))
    columns = (Column("id", "bigint"), Column("name", "string", "The title's text"))
    engine = open_sql_engine(settings, storage)
    try:
        one = make_table(f"{ORGANIZATION}/c", rows=1, columns=columns)  # a table of Trino
        two = replace(one, locations=(f"{ORGANIZATION}/c", f"{ORGANIZATION}/d"))  # a view
        again = replace(two, columns=(columns[0], Column("name", "string", "The name")))
        found = [_describe(client, engine.register(ORGANIZATION, table).identifiers) for table in (one, two, again)]
    finally:
        engine.close()
    assert found == [["", "The title's text"], ["", "The title's text"], ["", "The name"]]


def _describe(client: TrinoClient, identifiers: tuple[str, ...]) -> list[str]:
    return [row[3] for row in client.fetch(f"DESCRIBE {'.'.join(identifiers)}")]
