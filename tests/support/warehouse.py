"""Two organizations with datasets on a real data folder, and the SQL service over them."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from core.data.sql.embedded.engine import DuckDbEngine, WorkerLimits
from core.data.sql.embedded.pool import Pool
from core.data.sql.service import Query, QueryService, open_sql_engine
from core.definitions.identity.api_keys import Identity
from core.errors import SpindleError
from core.infra.database import Database, open_database
from core.infra.settings import Settings
from core.infra.storage import open_storage
from core.infra.storage.protocol import output_key, table_key
from core.tables import Base, Dataset, DatasetVersion, Organization, new_id
from tests.support.s3 import Bucket
from tests.support.stored import store_rows
from tests.support.tables import append_rows
from tests.support.trino import engine_settings


@dataclass
class Warehouse:
    """Two organizations on a real data folder, and the SQL service over it."""

    settings: Settings
    database: Database
    queries: QueryService
    ids: dict[str, str] = field(default_factory=dict)

    def organization(self, name: str) -> None:
        self.ids[name] = new_id()
        with self.database.write() as session:
            session.add(Organization(id=self.ids[name], name=name, slug=name))

    def publish(
        self, organization: str, schema: str, name: str, rows: pa.Table, columns: list[dict[str, str]],
        format_: str = "parquet", partition_by: Sequence[str] = (),
    ) -> str:  # fmt: skip
        """Writes `rows` as a dataset's next version, as an execution does, and switches the pointer to it.

        A Delta or Iceberg table gets them appended, so that the version has the earlier ones too.
        """
        owner, execution, snapshot = self.ids[organization], new_id(), None
        key = output_key(owner, execution, 1)
        if format_ != "parquet":
            key = table_key(owner, f"{schema}_{name}", format_)
            snapshot = append_rows(self.settings, format_, key, rows, partition_by)
        elif rows.num_rows:
            store_rows(self.settings, key, rows, partition_by)
        with self.database.write() as session:
            dataset = session.query(Dataset).filter_by(organization_id=owner, schema_slug=schema, slug=name).first()
            if dataset is None:
                dataset = Dataset(id=new_id(), organization_id=owner, name=name, schema_slug=schema, slug=name)
                session.add(dataset)
                session.flush()
            earlier = session.query(DatasetVersion).filter_by(dataset_id=dataset.id).count()
            version = DatasetVersion(
                id=new_id(), dataset_id=dataset.id, number=earlier + 1, execution_id=execution, locations=[key],
                columns=columns, row_count=rows.num_rows, format=format_, snapshot=snapshot,
                partition_by=[*partition_by],
            )  # fmt: skip
            session.add(version)
            dataset.current_version_id = version.id
            return dataset.id

    def rows(self, sql: str, organization: str = "acme", **request: Any) -> list[dict[str, Any]]:
        return self.queries.run(self.caller(organization), Query(sql, **request)).page.rows

    def answer(self, sql: str, **request: Any) -> list[dict[str, Any]] | SpindleError:
        """Return the rows, or the error of a statement that has none."""
        try:
            return self.rows(sql, **request)
        except SpindleError as error:
            return error

    def caller(self, organization: str) -> Identity:
        return Identity(self.ids[organization], "key", frozenset({"datasets:read"}))


PRODUCTS = pa.table({"id": [1, 2, 3], "name": ["kettle", "mug", None], "price": [19.5, 4.0, None]})
PRODUCT_COLUMNS = [
    {"name": "id", "type": "bigint"},
    {"name": "name", "type": "string"},
    {"name": "price", "type": "double"},
]
SECRETS = pa.table({"secret": ["the other organization's row"]})
SECRET_COLUMNS = [{"name": "secret", "type": "string"}]


def make_query_service(settings: Settings, database: Database, pool: Pool) -> QueryService:
    """Return the service on the engine of the settings; DuckDB's processes are those of the pool."""
    if settings.trino.address is not None:
        return QueryService(settings, database, open_sql_engine(settings, open_storage(settings.storage)))
    limits = WorkerLimits(pool, settings.sql.timeout_seconds)
    engine = DuckDbEngine(open_storage(settings.storage), limits, limits)
    return QueryService(settings, database, engine)


def make_warehouse(
    data: Path, pool: Pool, engine: str = "duckdb", bucket: Bucket | None = None
) -> Generator[Warehouse]:
    storage = bucket.settings if bucket else {}
    settings = Settings(data=data, sql_timeout_seconds=120, **engine_settings(engine), **storage)
    database = open_database(settings)
    Base.metadata.create_all(database.engine)
    warehouse = Warehouse(settings, database, make_query_service(settings, database, pool))
    warehouse.organization("acme")
    warehouse.organization("rival")
    warehouse.publish("acme", "shop", "products", PRODUCTS, PRODUCT_COLUMNS)
    warehouse.publish("acme", "archive", "products", PRODUCTS.slice(0, 1), PRODUCT_COLUMNS)
    warehouse.publish("acme", "shop", "empty", PRODUCTS.slice(0, 0), PRODUCT_COLUMNS)
    warehouse.publish("acme", "default", "notes", pa.table({"note": ["a", "b"]}), [{"name": "note", "type": "string"}])
    warehouse.publish("rival", "vault", "secrets", SECRETS, SECRET_COLUMNS)
    yield warehouse
    database.close()
