"""The store of proven selectors: a folder of an organization, with a file per record."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from pipelines.errors import RunError
from pipelines.filesystem import is_local, list_data_files, read_file, write_file
from pipelines.inference.records import Candidate, ProvenSelectors

_log = logging.getLogger(__name__)
_LOCKED = TypeAdapter(list[ProvenSelectors])
_UNSAFE = re.compile(r"[^a-z0-9.-]")


def make_record_path(record: ProvenSelectors) -> str:
    """Return the path of a record's file in the folder of its organization."""
    return f"{_name_folder(record.host)}/{record.key}.json"


def _name_folder(host: str) -> str:
    """Return the name of a host's folder, which never begins with a point: listings leave those folders out."""
    return _UNSAFE.sub("-", host.casefold()).lstrip(".") or "none"


def read_lock_file(path: Path) -> list[ProvenSelectors]:
    """Return the records of a lock file, pinned: a run replays them as they are. Raise RunError."""
    try:
        found = _LOCKED.validate_json(path.read_bytes())
    except OSError as error:
        raise RunError(f"the selectors in {path} cannot be read: {error.strerror}") from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"])) or "its beginning"
        raise RunError(f"{path} is no file of `spindle selectors export`: at {place}: {first['msg']}") from None
    return [each.model_copy(update={"pinned": True}) for each in found]


class SelectorStore:
    """Records by host and key; the last one that is put counts. A record that cannot be read is left out.

    Those of a lock file precede those of the folder, and are not replaced; neither are pinned ones. With `is_own`, the
    folder is on the machine of the user, who deletes its files without a service.
    """

    def __init__(self, folder: str | None, locked: Sequence[ProvenSelectors] = (), is_own: bool = False) -> None:
        self._folder = folder.rstrip("/") if folder else None
        self._is_own = is_own
        self._locked = {each.key: each for each in locked}

    def list_host(self, host: str) -> list[ProvenSelectors]:
        """Return the records of a host."""
        locked = [each for each in self._locked.values() if each.host == host]
        stored = self._read(f"{self._folder}/{_name_folder(host)}") if self._folder else ()
        return [*locked, *(each for each in stored if each.key not in self._locked)]

    def list_all(self) -> list[ProvenSelectors]:
        """Return all records, by host and key."""
        return [*self._read(self._folder)] if self._folder else []

    def advise_deletion(self, record: ProvenSelectors) -> str:
        """Return how a user lets the next run infer a record again; empty where no run keeps it."""
        if record.key in self._locked:
            return "a run without --selectors infers it again"
        if self._folder is None:
            return ""
        if self._is_own:
            return f"delete the file {self._folder}/{make_record_path(record)}, and the next run infers it again"
        return f"`spindle selectors delete {record.key}` lets the next run infer it again"

    def put(self, record: ProvenSelectors) -> None:
        """Store a record in place of the one with its key, unless that is pinned."""
        known = next((each for each in self.list_host(record.host) if each.key == record.key), None)
        if known is None or not known.pinned:
            self._write(record)

    def put_figures(self, record: ProvenSelectors) -> None:
        """Store the figures of a record's values, also of a pinned one: its selectors stay."""
        known = next((each for each in self.list_host(record.host) if each.key == record.key), None)
        if known is not None and _list_candidates(known) == _list_candidates(record):
            self._write(record.model_copy(update={"pinned": known.pinned}))

    def _write(self, record: ProvenSelectors) -> None:
        if self._folder is None or record.key in self._locked:
            return
        address = f"{self._folder}/{make_record_path(record)}"
        if is_local(address):
            Path(address).parent.mkdir(parents=True, exist_ok=True)
        write_file(address, record.to_json().encode())

    def _read(self, folder: str) -> Iterator[ProvenSelectors]:
        for file in list_data_files(folder, recursive=True):
            content = read_file(file.path) if file.name.endswith(".json") else None
            if content is None:
                continue
            try:
                yield ProvenSelectors.from_json(content.decode())
            except ValueError as error:
                _log.warning("%s holds no proven selectors: %s", file.path, str(error).partition("\n")[0])


def _list_candidates(record: ProvenSelectors) -> list[tuple[str, tuple[Candidate, ...]]]:
    return [(each.name, each.candidates) for each in record.fields]
