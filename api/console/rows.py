"""Rows of datasets as pages show them: long texts are cut by the query, so that no page carries them whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from api.console.rendering import CELL_LENGTH
from api.kit.concurrency import QUERIES
from api.kit.services import Services
from core.data.sql.service import Query
from core.definitions.identity.api_keys import Identity
from core.errors import SpindleError
from pipelines.duckdb.views import quote_identifier

ALL = "SELECT * FROM output"


@dataclass(frozen=True, slots=True)
class Rows:
    """Columns as (name, SQL type) and rows by column name; `problem` says why there are none to show."""

    columns: Sequence[tuple[str, str]]
    rows: Sequence[dict[str, Any]]
    more: bool
    problem: str | None = None


def load_rows(
    services: Services,
    caller: Identity,
    dataset_id: str,
    *,
    limit: int,
    offset: int = 0,
    version: str | None = None,
    execution_id: str | None = None,
) -> Rows:
    """Return rows of the dataset: its current version, another one, or what an execution published."""
    try:
        with QUERIES.acquire(caller.organization_id):
            bound = Query(ALL, limit=0, dataset_id=dataset_id, version=version, execution_id=execution_id)
            columns = [(each.name, each.type) for each in services.queries.run(caller, bound).page.columns]
            chosen = ", ".join(_cut(name, type_) for name, type_ in columns)
            query = Query(
                f"SELECT {chosen} FROM output",  # noqa: S608 - names of columns, quoted
                limit=limit + 1,
                offset=offset,
                dataset_id=dataset_id,
                version=version,
                execution_id=execution_id,
            )
            rows = services.queries.run(caller, query).page.rows
    except SpindleError as error:
        return Rows((), (), False, error.sentence)
    return Rows(columns, rows[:limit], len(rows) > limit)


def _cut(name: str, type_: str) -> str:
    quoted = quote_identifier(name)
    return f"substr({quoted}, 1, {CELL_LENGTH}) AS {quoted}" if type_.startswith("varchar") else quoted
