"""The fields of a dataset that a request sets."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from core.errors import BadInput
from core.infra.changes import WHOLE, Changes, Name, example
from core.infra.validation import check_storable

MAX_RETAINED = 1_000_000  # versions, or days
MIN_EVERY, MAX_EVERY = timedelta(hours=1), timedelta(days=366)
_DURATION = TypeAdapter(timedelta)
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


class MaintenanceRequest(Changes):
    model_config = example({"days": 7})

    days: Annotated[int, WHOLE, Field(json_schema_extra={"minimum": 0, "maximum": MAX_RETAINED})] = 7
    """Files stay for this many days after the commit that replaced them."""


class MaintenancePlan(MaintenanceRequest):
    model_config = example({"days": 7, "every": "P1D"})

    every: str = "P1D"
    """Time between two maintenances, as an ISO 8601 duration of an hour or more."""

    def parse_every(self) -> timedelta:
        """Return the time between two maintenances; raise BadInput for another text."""
        try:
            every = _DURATION.validate_python(self.every)
        except ValidationError:
            every = timedelta()
        if not MIN_EVERY <= every <= MAX_EVERY:
            sentence = "'every' is a duration of an hour to a year, such as P1D or PT12H."
            raise BadInput(sentence, path="maintenance.every")
        return every


class Retention(Changes):
    model_config = example({"versions": 10, "days": 30, "maintenance": {"days": 7, "every": "P1D"}})

    versions: Annotated[int, WHOLE] | None = None
    """How many of the newest versions are kept; all when left out."""
    days: Annotated[int, WHOLE] | None = None
    """For how many days versions are kept; for ever when left out."""
    maintenance: MaintenancePlan | None = None
    """When the table is maintained, as `POST …/maintain` does; never when left out."""
