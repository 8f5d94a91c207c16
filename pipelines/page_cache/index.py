"""Where the pages of a folder are: keys, sorted, with their places, in memory or mapped from a file."""

from __future__ import annotations

import json
import os
from bisect import bisect_right
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from pipelines.page_cache import groups
from pipelines.page_cache.groups import Place

NAME = "index"
_SCHEMA = pa.schema([("key", pa.uint64()), ("place", pa.uint64())])
_FILE = 40  # bits for the offset of a place, which is one number; the others are for its file
_OFFSETS = (1 << _FILE) - 1


class Index:
    """Places by key; of equal keys the one that was added last counts. `files` are names in the folder."""

    def __init__(self, folder: Path, files: list[str], keys: Any, places: Any) -> None:
        self._folder = folder
        self.files = files
        self._keys = keys
        self._places = places
        self._sorted_keys = memoryview(keys)  # plain numbers come out of it, which numpy makes slowly
        self._sorted_places = memoryview(places)
        self._paths = [f"{folder}/{name}" for name in files]

    @classmethod
    def empty(cls, folder: Path) -> Index:
        return cls(folder, [], np.empty(0, np.uint64), np.empty(0, np.uint64))

    @classmethod
    def load(cls, folder: Path) -> Index:
        """The index that was last saved, mapped; its pages may be gone by now."""
        try:
            with pa.memory_map(str(folder / NAME)) as source:
                batch = pa.ipc.open_file(source).get_batch(0)
                files = json.loads((batch.schema.metadata or {})[b"files"])
        except (OSError, pa.ArrowInvalid, KeyError, ValueError):
            return cls.empty(folder)
        return cls(folder, files, batch.column(0).to_numpy(), batch.column(1).to_numpy())

    @classmethod
    def of(cls, folder: Path, names: Iterable[str]) -> Index:
        """The index of these files, oldest first; reads their keys."""
        files = list(names)
        found_keys, found_places = [np.empty(0, np.uint64)], [np.empty(0, np.uint64)]
        for number, name in enumerate(files):
            for offset, keys in groups.keys(str(folder / name)):
                found_keys.append(np.array(keys, np.uint64))
                found_places.append(np.full(len(keys), number << _FILE | offset, np.uint64))
        return cls(folder, files, *_sorted(np.concatenate(found_keys), np.concatenate(found_places)))

    def joined(self, later: Index, files: set[str]) -> Index:
        """This index and a later one, as far as they speak of `files`, with the newest place of each key alone."""
        kept = [name for name in (*self.files, *later.files) if name in files]
        positions = {name: position for position, name in enumerate(kept)}
        numbers = np.array([positions.get(name, -1) for name in (*self.files, *later.files)], np.int64)
        keys = np.concatenate([self._keys, later._keys])
        places = np.concatenate([self._places, later._places + np.uint64(len(self.files) << _FILE)])
        number = numbers[(places >> np.uint64(_FILE)).astype(np.int64)]
        places = number.astype(np.uint64) << np.uint64(_FILE) | places & np.uint64(_OFFSETS)
        keys, places = _sorted(keys[number >= 0], places[number >= 0])
        newest = np.append(keys[1:] != keys[:-1], True)[: len(keys)]
        return Index(self._folder, kept, keys[newest], places[newest])

    def save(self) -> None:
        metadata = {b"files": json.dumps(self.files).encode()}
        batch = pa.record_batch([pa.array(self._keys), pa.array(self._places)], _SCHEMA.with_metadata(metadata))
        unfinished = self._folder / f"{NAME}.{os.getpid()}.part"
        with unfinished.open("wb") as file, pa.ipc.new_file(file, batch.schema) as writer:
            writer.write_batch(batch)
        unfinished.replace(self._folder / NAME)

    def find(self, key: int) -> Place | None:
        keys = self._sorted_keys
        at = bisect_right(keys, key) - 1
        if at < 0 or keys[at] != key:
            return None
        place = self._sorted_places[at]
        return Place(self._paths[place >> _FILE], place & _OFFSETS)

    def holds(self, place: Place, key: int) -> bool:
        """Whether the newest page of `key` is the one at `place`."""
        return self.find(key) == place


def _sorted(keys: Any, places: Any) -> tuple[Any, Any]:
    order = keys.argsort(kind="stable")
    return keys[order], places[order]
