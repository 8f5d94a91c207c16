"""A folder of pages: what is written to it, what is found in it."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path

from pipelines.fetch.groups import SUFFIX, Entry, GroupReader, GroupWriter, Pending, Place
from pipelines.fetch.index import Index

_GROUPS_AT_HAND = 512  # bodies are mapped, all else takes some 30 KB each; passes ask in about the order of writing


class PageStore:
    """Pages by key. Any number of processes may write to one folder; each sees what was there when it opened it, and
    what it put in itself. For one thread.
    """

    def __init__(self, folder: Path) -> None:
        self._writer = GroupWriter(folder)
        self._pending = Pending()
        self._own: dict[int, Place] = {}
        self._groups: OrderedDict[tuple[str, int], GroupReader] = OrderedDict()
        self._saved = Index.load(folder)
        known = set(self._saved.files)
        self._recent = Index.of(folder, (name for name in names(folder) if name not in known))

    def get(self, key: int) -> Entry | None:
        """The newest page of `key`."""
        if key in self._pending.entries:
            return self._pending.entries[key]
        place = self._own.get(key) or self._recent.find(key) or self._saved.find(key)
        group = self._group(place) if place else None
        return group.entry(place.row) if place and group else None

    def put(self, entry: Entry) -> None:
        self._pending.add(entry)
        self.tick()

    def tick(self) -> None:
        """Writes what has waited long enough."""
        if self._pending.due():
            self._write()

    def close(self) -> None:
        if self._pending.entries:
            self._write()
        self._writer.close()

    def _write(self) -> None:
        entries = self._pending.take()
        places = self._writer.write(entries)
        self._own.update({entry[0]: place for entry, place in zip(entries, places, strict=True)})

    def _group(self, place: Place) -> GroupReader | None:
        """The group of a page; those that were wanted last are kept open."""
        where = (place.file, place.offset)
        found = self._groups.get(where)
        if found is None:
            found = GroupReader.open(*where)
            if found is None:
                return None
            self._groups[where] = found
        self._groups.move_to_end(where)
        while len(self._groups) > _GROUPS_AT_HAND:
            self._groups.popitem(last=False)
        return found


def names(folder: Path) -> list[str]:
    """The files of a folder of pages, oldest first: their names begin with the time."""
    return sorted(path.name for path in folder.glob(f"*{SUFFIX}"))
