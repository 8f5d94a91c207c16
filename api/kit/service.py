"""What the endpoints work on: made when the server starts, closed when it ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, cast

from fastapi import Depends, Request

from core.database import Database, open_database
from core.settings import Settings
from core.sql.pool import Pool
from core.sql.queries import Queries


@dataclass(frozen=True, slots=True)
class Service:
    """One server's settings, database and query processes."""

    settings: Settings
    database: Database
    pool: Pool
    queries: Queries

    def close(self) -> None:
        self.pool.close()
        self.database.close()


def open_service(settings: Settings) -> Service:
    database, pool = open_database(settings), Pool(settings.data.resolve() / "sql")
    return Service(settings, database, pool, Queries(settings, database, pool))


def service_of(request: Request) -> Service:
    return cast(Service, request.app.state.service)


ServiceOf = Annotated[Service, Depends(service_of)]
