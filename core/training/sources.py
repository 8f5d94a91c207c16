"""The data of a training: a version of a dataset, a file of the organization's storage, or a file of the provider."""

from __future__ import annotations

import shutil
from collections.abc import Generator, Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from sqlalchemy.orm import Session

from core.data.datasets.repository import SCHEME, DatasetRepository
from core.data.datasets.service import DatasetService
from core.data.datasets.versions import get_version
from core.data.files.messages import ConversionRequest
from core.data.files.process import FileReader
from core.definitions.identity.api_keys import Identity
from core.errors import BadInput, Conflict, NotFound
from core.infra.database import Database
from core.infra.settings import Settings
from core.infra.storage.protocol import InvalidKey, NotStored, Storage
from core.infra.validation import is_storable
from core.tables import DatasetVersion
from core.training.examples import check_columns
from core.training.providers.protocol import ExampleFormat

CHUNK_BYTES = 2**20
PROVIDER_FILE = "file-"
JSON_LINES = (".jsonl", ".ndjson", ".json")

Source = dict[str, Any]


class SourceReader:
    """Finds and reads the data of one organization's trainings."""

    def __init__(
        self, settings: Settings, database: Database, storage: Storage, datasets: DatasetService, files: FileReader
    ) -> None:
        self._settings = settings
        self._database = database
        self._storage = storage
        self._datasets = datasets
        self._files = files

    def open_scratch(self) -> AbstractContextManager[Path]:
        """Return a context with a folder for files that are made on the way."""
        return self._files.open_scratch()

    def find(
        self, session: Session, organization_id: str, text: str | None, dataset_id: str | None, field: str
    ) -> Source | None:
        """Return the source that a path or a dataset's id means, with the version that is current now.

        Raise BadInput for a path outside the organization's storage, an unknown dataset, or one without rows.
        """
        datasets = DatasetRepository(session, organization_id)
        if dataset_id:
            try:
                dataset = datasets.get(dataset_id)
                return _freeze(dataset.id, get_version(session, dataset, None))
            except NotFound as error:
                sentence = "There is no dataset with this id, or it has no rows yet."
                raise BadInput(sentence, code="unknown-dataset", path="datasetId") from error
        if not text:
            return None
        if text.startswith(PROVIDER_FILE) and "/" not in text:
            return {"kind": "provider", "id": text}
        version = datasets.find_at(text.rstrip("/")) if text.startswith(SCHEME) else None
        if version is not None:
            return _freeze(version.dataset_id, version)
        return {"kind": "file", "key": self.find_key(organization_id, text, field)}

    def find_key(self, organization_id: str, text: str, field: str) -> str:
        """Return the key of a file or folder of the organization's storage, by its address or its path there."""
        path = text.removeprefix(SCHEME) if text.startswith(SCHEME) else text
        key = self._storage.find_key(path) if is_storable(path) else None
        if key is None:
            key = path if path.startswith(f"{organization_id}/") else f"{organization_id}/{path}"
        outside = BadInput(
            f"'{field}' is no path in the organization's storage.", code="path-outside-storage", path=field
        )
        if not key.startswith(f"{organization_id}/") or "://" in key or not is_storable(key):
            raise outside
        try:
            found = next(iter(self._storage.list(key)), None) or self._open(key)
        except InvalidKey as error:
            raise outside from error
        except NotStored as error:
            raise BadInput(f"There is no file at '{field}'.", code="unknown-dataset", path=field) from error
        del found
        return key

    def check(self, session: Session, organization_id: str, source: Source, format_: ExampleFormat, field: str) -> None:
        """Raise BadInput for a dataset whose columns cannot be examples."""
        if source["kind"] == "dataset":
            dataset = DatasetRepository(session, organization_id).get(source["datasetId"])
            version = get_version(session, dataset, source["version"])
            check_columns((column["name"] for column in version.columns), format_, field)

    def read_lines(self, organization_id: str, source: Source, field: str) -> Generator[bytes]:
        """Yield the rows as JSON lines. Raise BadInput or Conflict for data that cannot be read any longer."""
        if source["kind"] == "dataset":
            caller = Identity(organization_id, "", frozenset())
            try:
                download = self._datasets.open_download(
                    self._database, caller, source["datasetId"], "jsonl", source["version"]
                )
            except NotFound as error:
                sentence = "The dataset of the training, or this version of it, was deleted."
                raise Conflict(sentence, code="missing-files", path=field) from error
            assert not isinstance(download.content, bytes)  # noqa: S101 - rows as JSON lines are made anew
            yield from _split_lines(iter(download.content))
        else:
            yield from self._read_file(source["key"], field)

    def _read_file(self, key: str, field: str) -> Generator[bytes]:
        try:
            if key.endswith(JSON_LINES):
                with self._storage.open(key) as content:
                    yield from content
                return
            with self._files.open_scratch() as scratch:
                copy = scratch / "source"
                with self._storage.open(key) as content, copy.open("wb") as target:
                    shutil.copyfileobj(content, target, CHUNK_BYTES)
                converted = self._files.convert(
                    ConversionRequest(str(copy), str(scratch), self._settings.files.upload_bytes)
                )
                yield from _split_lines(self._files.export([converted.path], "parquet", "jsonl", []))
        except NotStored as error:
            raise Conflict(f"The file of '{field}' was deleted.", code="missing-files", path=field) from error

    def _open(self, key: str) -> bool:
        self._storage.open(key).close()
        return True


def _freeze(dataset_id: str, version: DatasetVersion) -> Source:
    return {"kind": "dataset", "datasetId": dataset_id, "version": version.id}


def _split_lines(chunks: Iterable[bytes]) -> Generator[bytes]:
    """Yield whole lines of text from chunks of any size."""
    rest = b""
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        yield from lines
    if rest:
        yield rest
