"""Reads of datasets."""

from __future__ import annotations

from collections.abc import Sequence

from core.datasets.repository import DatasetRepository, DatasetWithVersion
from core.identity.api_keys import Identity
from core.infra.database import Database


class DatasetService:
    """Every method works on the datasets of the caller's organization; others are unknown to it (NotFound)."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def list(
        self, caller: Identity, *, limit: int | None = None, after: str | None = None
    ) -> Sequence[DatasetWithVersion]:
        with self._database.read() as session:
            return DatasetRepository(session, caller.organization_id).list(limit=limit, after=after)

    def get(self, caller: Identity, dataset_id: str) -> DatasetWithVersion:
        with self._database.read() as session:
            datasets = DatasetRepository(session, caller.organization_id)
            dataset = datasets.get(dataset_id)
            return DatasetWithVersion(dataset, datasets.find_version(dataset))
