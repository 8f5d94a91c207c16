"""The addresses of a version, opened by the libraries of the table formats."""

from __future__ import annotations

import pyarrow as pa

from core.data.datasets.version_files import NOWHERE, locate_version
from core.infra.settings import Settings
from core.infra.storage import open_storage
from core.tables import DatasetVersion, new_id
from tests.support.other_programs import open_delta, open_iceberg
from tests.support.tables import append_rows

ROWS = pa.table({"title": ["kettle", "mug"]})


def write(settings: Settings, format_: str) -> DatasetVersion:
    """A version whose table another writer has changed since."""
    key = f"organization/tables/{new_id()}/{format_}"
    snapshot = append_rows(settings, format_, key, ROWS)
    append_rows(settings, format_, key, ROWS)
    return DatasetVersion(format=format_, locations=[key], snapshot=snapshot)


def test_the_location_of_a_delta_table_is_opened_by_its_library(settings: Settings) -> None:
    version = write(settings, "delta")
    place = locate_version(open_storage(settings.storage), version)
    assert place.metadata_location is None
    assert place.location is not None
    assert open_delta(place.location, int(version.snapshot or "")).to_pyarrow_table().num_rows == 2


def test_the_metadata_of_an_iceberg_table_is_opened_by_its_library(settings: Settings) -> None:
    place = locate_version(open_storage(settings.storage), write(settings, "iceberg"))
    assert place.metadata_location.startswith(f"{place.location}/metadata/")
    assert open_iceberg(place.metadata_location).scan().to_arrow().num_rows == 2


def test_a_dataset_without_a_version_is_nowhere(settings: Settings) -> None:
    assert locate_version(open_storage(settings.storage), None) == NOWHERE
    assert (NOWHERE.location, NOWHERE.locations) == (None, ())
