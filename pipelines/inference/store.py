"""The store of proven selectors: a folder of an organization, with a file for each record."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from pathlib import Path

from pipelines.filesystem import delete_file, is_local, list_data_files, read_file, write_file
from pipelines.inference.records import ProvenSelectors

_log = logging.getLogger(__name__)
_UNSAFE = re.compile(r"[^a-z0-9.-]")


def make_record_path(record: ProvenSelectors) -> str:
    """Return the path of a record's file in the folder of its organization."""
    return f"{_name_folder(record.host)}/{record.key}.json"


def _name_folder(host: str) -> str:
    """Return the name of a host's folder, which never begins with a point: listings leave such folders out."""
    return _UNSAFE.sub("-", host.casefold()).lstrip(".") or "none"


class SelectorStore:
    """Records by host and key; the last one that is put counts. A record that cannot be read is left out."""

    def __init__(self, folder: str) -> None:
        self._folder = folder.rstrip("/")

    def list_host(self, host: str) -> list[ProvenSelectors]:
        """Return the records of a host."""
        return [*self._read(self._get_folder(host))]

    def list_all(self) -> list[ProvenSelectors]:
        """Return all records, by host and key."""
        return [*self._read(self._folder)]

    def put(self, record: ProvenSelectors) -> None:
        """Store a record in place of the one with its key."""
        folder = self._get_folder(record.host)
        if is_local(folder):
            Path(folder).mkdir(parents=True, exist_ok=True)
        write_file(self._get_address(record), record.to_json().encode())

    def delete(self, record: ProvenSelectors) -> None:
        """Delete a record, so that the next run asks the model again."""
        delete_file(self._get_address(record))

    def _get_folder(self, host: str) -> str:
        return f"{self._folder}/{_name_folder(host)}"

    def _get_address(self, record: ProvenSelectors) -> str:
        return f"{self._folder}/{make_record_path(record)}"

    def _read(self, folder: str) -> Iterator[ProvenSelectors]:
        for file in list_data_files(folder, recursive=True):
            content = read_file(file.path) if file.name.endswith(".json") else None
            if content is None:
                continue
            try:
                yield ProvenSelectors.from_json(content.decode())
            except ValueError as error:
                _log.warning("%s holds no proven selectors: %s", file.path, str(error).partition("\n")[0])
