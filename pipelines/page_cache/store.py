"""A folder of pages: what is written to it, what is found in it."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path

from pipelines.page_cache.groups import SUFFIX, Entry, Group, GroupReader, GroupWriter, Pending, Place
from pipelines.page_cache.index import Index

_BYTES_AT_HAND = 8 * 1024 * 1024  # some 1,300 pages of 6 KB: passes ask in about the order of writing


class PageStore:
    """Pages by key. Any number of processes may write to one folder; each sees what was there when it opened it or last
    looked, what it put in itself, and what it was told of. For one thread.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._writer = GroupWriter(folder)
        self._reader = GroupReader()
        self._pending = Pending()
        self._since: dict[int, Place] = {}
        self._groups: OrderedDict[Place, Group] = OrderedDict()
        self._bytes = 0
        self.look()

    def look(self) -> None:
        """Finds what others have written since."""
        saved = Index.load(self._folder)
        known = set(saved.files)
        recent = Index.of(self._folder, (name for name in names(self._folder) if name not in known))
        self._found = [index for index in (recent, saved) if index.files]

    def get(self, key: int) -> Entry | None:
        """The newest page of `key`."""
        if key in self._pending.entries:
            return self._pending.entries[key]
        group = self._group(place) if (place := self.place(key)) else None
        return group.get(key) if group else None

    def place(self, key: int) -> Place | None:
        """Where the newest page of `key` stands, written by now."""
        if key in self._pending.entries:
            self._write()
        if place := self._since.get(key):
            return place
        for index in self._found:
            if place := index.find(key):
                return place
        return None

    def put(self, entry: Entry) -> None:
        if not self._pending.fits(entry):
            self._write()
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
        self._reader.close()

    def _write(self) -> None:
        entries = self._pending.take()
        self._since.update(dict.fromkeys((entry[0] for entry in entries), self._writer.write(entries)))

    def _group(self, place: Place) -> Group | None:
        """The group at `place`; those that were wanted last are kept at hand, but for pages that stand alone."""
        found = self._groups.get(place)
        if found is None:
            found = self._reader.read(place)
            if found is None or found.alone:
                return found
            self._groups[place] = found
            self._bytes += found.size
            while self._bytes > _BYTES_AT_HAND and len(self._groups) > 1:
                self._bytes -= self._groups.popitem(last=False)[1].size
        self._groups.move_to_end(place)
        return found


def names(folder: Path) -> list[str]:
    """The files of a folder of pages, oldest first: their names begin with the time."""
    return sorted(path.name for path in folder.glob(f"*{SUFFIX}"))
