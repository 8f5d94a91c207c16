"""The fields of a dataset that a request sets."""

from __future__ import annotations

from typing import Annotated, Any

from core.errors import BadInput
from core.infra.changes import WHOLE, Changes, Name, example
from core.infra.validation import check_storable

DATASET_TYPES = ("INPUT", "OUTPUT")


class DatasetUpdate(Changes):
    model_config = example({"name": "Prices", "description": "Prices of one shop", "datasetType": "INPUT"})
    not_columns = frozenset({"type", "project_id", "storage_path", "file_path", "table_name"})

    name: str | None = None
    description: str | None = None
    dataset_type: str | None = None
    """INPUT or OUTPUT, in any case."""
    type: str | None = None
    """The same as `datasetType`."""
    format: str | None = None
    """Format of its files; a published dataset keeps its own."""
    table_name: str | None = None
    """Name of its table in SQL, which cannot be changed; from the dataset's name when left out at its creation."""

    def to_columns(self) -> dict[str, Any]:
        columns = super().to_columns()
        dataset_type = self.dataset_type or self.type
        if dataset_type is not None:
            check_storable("datasetType", dataset_type)
            columns["dataset_type"] = dataset_type.upper()
            if columns["dataset_type"] not in DATASET_TYPES:
                raise BadInput("'datasetType' is INPUT or OUTPUT.", path="datasetType")
        if self.format is not None:
            columns["format"] = self.format.lower()
        return columns


class DatasetCreate(DatasetUpdate):
    name: Name  # pyright: ignore[reportIncompatibleVariableOverride,reportGeneralTypeIssues]
    project_id: str | None = None
    """Project whose schema gets the table; the schema is `default` when left out."""
    storage_path: str | None = None
    """Address such as `spindle://project/name` that saves and loads use; from the name when left out."""
    file_path: str | None = None
    """The same as `storagePath`."""


class Retention(Changes):
    model_config = example({"versions": 10, "days": 30})

    versions: Annotated[int, WHOLE] | None = None
    """How many of the newest versions are kept; all when left out."""
    days: Annotated[int, WHOLE] | None = None
    """For how many days versions are kept; for ever when left out."""
