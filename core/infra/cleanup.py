"""The things that a cleanup removes, counted by kind; a dry run removes nothing."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

from sqlalchemy.orm import Session

from core.infra.database import Database
from core.infra.storage.protocol import Storage, StoredFile


@dataclass(slots=True)
class Removed:
    """How many files or records of a kind were removed; `bytes` counts those of files."""

    count: int = 0
    bytes: int = 0


@dataclass(slots=True)
class Cleanup:
    """One pass over what is kept too long: the same code runs for a dry run, whose transactions are rolled back."""

    dry_run: bool = False
    removed: dict[str, Removed] = field(default_factory=dict[str, Removed])  # by kind

    def count(self, kind: str, count: int, size_bytes: int = 0) -> None:
        found = self.removed.setdefault(kind, Removed())
        found.count += count
        found.bytes += size_bytes

    def delete_file(self, kind: str, storage: Storage, file: StoredFile) -> None:
        if not self.dry_run:
            storage.delete(file.key)
        self.count(kind, 1, file.size_bytes)

    @contextmanager
    def write(self, database: Database) -> Generator[Session]:
        """Open a transaction, which a dry run rolls back."""
        with database.write() as session:
            yield session
            if self.dry_run:
                session.rollback()
