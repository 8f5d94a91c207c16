"""An installation: a database, a storage and a service key that belong together (docs/adr/0038).

The database has one row with an id, and the storage has a marker with the same id, so that neither is used with
another one. The marker also names the place of the database, which a copy of it does not share. Both have a token that
the service renews, so that an older state of the database is noticed too.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from secrets import token_hex
from threading import Lock
from typing import Any, cast

import structlog
from pydantic import BaseModel, ConfigDict, ValidationError
from sqlalchemy import func, select, text
from sqlalchemy.orm import Session

from core.errors import Conflict, Unavailable
from core.infra.database import Database, open_database
from core.infra.encryption import KeyRing
from core.infra.files import describe_disk_fault
from core.infra.secrets import find_service_key, load_service_key
from core.infra.settings import Settings
from core.infra.storage import get_local_folder, is_bucket, open_storage
from core.infra.storage.local import STORAGE
from core.infra.storage.protocol import NotStored, Storage
from core.tables import DatasetVersion, Installation, Organization
from pipelines.filesystem import split_address

MARKER = "installation.json"
CODE = "foreign-installation"
LOCK = 0x5350494E444C03
CHECK_SECONDS = 60  # between two checks of a process that deletes files
BESIDE = "beside the storage"  # so that a copy of a whole data folder is an installation too
ADOPT = (
    "If they belong together from now on, run `spindle adopt`; for a copy, set SPINDLE_STORAGE to an address of its "
    "own and run `spindle adopt --copy`."
)
RESTORE_KEY = (
    "Restore it as DATA/secret-key or SPINDLE_SECRET_KEY, or run `spindle adopt` and write all stored secrets again."
)
DELETES_NOTHING = "This service deletes no files, because its storage belongs to another one: its log says to which."

log = structlog.get_logger()


class ForeignInstallation(Conflict):
    """Database, storage and service key do not belong together; the sentence is for the operator."""

    default_code = CODE

    def __init__(self, sentence: str, advice: str) -> None:
        super().__init__(f"{sentence} {advice} [{CODE}]")


class Marker(BaseModel):
    """The file in the storage."""

    model_config = ConfigDict(frozen=True)

    id: str
    token: str
    place: str
    """Of the database, which a copy does not share."""
    database: str
    """Its URL without the password, for people."""
    original: str | None = None
    """The storage of the service that this one is a copy of."""
    is_pending: bool = False
    """Whether the database has not recorded it yet: a start was killed then, or its transaction failed."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What a process has been started with: the database's URL and place, the storage's address, and the key's id."""

    database: str
    place: str
    storage: str
    key_id: str | None


def find_contradiction(parts: Parts, row: Installation | None, marker: Marker | None) -> tuple[str, str] | None:
    """Return why the parts do not belong together, and the remedy for the operator; None when they do."""
    database, storage = f"database {parts.database}", f"storage {parts.storage}"
    if row is None:
        if marker is None or (marker.is_pending and marker.place == parts.place):
            return None
        if marker.place == parts.place:
            return f"The {database} is older than the {storage}: it is new, or was restored from a backup.", ADOPT
        return f"The {storage} belongs to the database {marker.database}, and not to the {database}.", ADOPT
    if marker is None and row.storage == parts.storage:
        return f"The {storage} of the {database} has lost its file {MARKER}.", ADOPT
    if marker is None:
        sentence = f"The {database} belongs to the storage {row.storage}, and not to the {storage}."
        return sentence, f"Start it with that storage and its service key. {ADOPT}"
    if marker.id != row.id:
        sentence = f"The {storage} belongs to the database {marker.database}, and the {database} to the storage"
        return f"{sentence} {row.storage}.", ADOPT
    if marker.place != parts.place and marker.database == parts.database:
        return f"The {storage} belongs to an earlier {database}, which was replaced by this copy or restore.", ADOPT
    if marker.place != parts.place:
        sentence = f"The {storage} belongs to the database {marker.database}, of which the {database} is a copy"
        return f"{sentence}, unless it was moved or restored.", ADOPT
    if marker.token not in (row.token, row.previous_token):
        return f"The {database} is older than the {storage}: it is a copy, or was restored from a backup.", ADOPT
    if parts.key_id != row.key_id:
        return _describe_wrong_key(parts), RESTORE_KEY
    return None


def _describe_wrong_key(parts: Parts) -> str:
    wrong = "There is no service key for" if parts.key_id is None else "The service key is not that of"
    return f"{wrong} the database {parts.database} and the storage {parts.storage}."


def check_installation(settings: Settings, database: Database, storage: Storage) -> None:
    """Raise ForeignInstallation unless database, storage and service key belong together."""
    marker = _read_marker(storage)  # before the row, which is written first
    with database.read() as session:
        row = session.scalars(select(Installation)).one_or_none()
    _refuse(find_contradiction(_describe_parts(settings, database), row, marker))


def exit_if_foreign(settings: Settings) -> None:
    """End this process with the sentence; one whose database or storage does not answer is checked when it deletes."""
    try:
        with closing(open_database(settings)) as database:
            check_installation(settings, database, open_storage(settings.storage))
    except ForeignInstallation as error:
        sys.exit(error.sentence)
    except Unavailable as error:
        log.warning("installation not checked", reason=error.sentence)


def establish_installation(settings: Settings, database: Database, storage: Storage) -> None:
    """Check the installation at a start; record it at the first one, unless the database was used with other parts."""
    parts = _describe_parts(settings, database)
    with _lock_rows(database) as session:
        row, marker = session.scalars(select(Installation)).one_or_none(), _read_marker(storage)
        _refuse(find_contradiction(parts, row, marker))
        if row is not None:
            row.storage = parts.storage  # it may have been moved
            return
        is_used = session.scalar(select(Organization.id).limit(1)) is not None
        if is_used:
            _refuse(_find_doubt(session, parts, storage))
        new = Installation(id=marker.id) if marker else Installation()
        recorded = _record(session, new, _replace_key(settings, parts), storage, None)
        if is_used:
            log.info("database and storage belong together", database=parts.database, storage=parts.storage)
    _write_marker(storage, recorded)


def renew_token(settings: Settings, database: Database, storage: Storage) -> None:
    """Replace the token in both, after which an earlier state of the database is refused.

    One process of an installation does so at a time. One that is killed between leaves the marker one token behind.
    """
    with nullcontext() if database.sqlite_path else _lock_rows(database):
        check_installation(settings, database, storage)
        marker = _read_marker(storage)
        if marker is None:  # of a database that no start has prepared
            return
        new = marker.model_copy(
            update={"token": token_hex(16), "database": _describe_database(database), "is_pending": False}
        )
        with database.write() as session:
            row = session.scalars(select(Installation)).one()
            row.token, row.previous_token = new.token, marker.token
        _write_marker(storage, new)


@dataclass(frozen=True, slots=True)
class Adoption:
    """What `adopt` has changed: the database that the storage belonged to before, and whether the key is another."""

    parts: Parts
    previous_database: str | None
    has_other_key: bool
    original: str | None


def adopt(settings: Settings, database: Database, storage: Storage, *, as_copy: bool = False) -> Adoption:
    """Make database, storage and service key one installation.

    `as_copy` makes one of its own of a copied database, with a storage that may have files copied from the original's.
    Raises Conflict when that is the storage of the original or of another service.
    """
    parts = _describe_parts(settings, database)
    with _lock_rows(database) as session:
        row, marker = session.scalars(select(Installation)).one_or_none(), _read_marker(storage)
        if marker and marker.place != parts.place and session.scalar(select(Organization.id).limit(1)) is None:
            raise Conflict(
                f"The database {parts.database} is new, and the storage {parts.storage} belongs to the database"
                f" {marker.database}. Restore that one first, or set SPINDLE_STORAGE to another address."
            )
        original = marker.original if row and marker and marker.id == row.id else None
        if as_copy:
            original = _find_original(parts, row, marker)
        has_other_key = row is not None and row.key_id != parts.key_id
        parts = _replace_key(settings, parts)
        if row is not None and as_copy:
            session.delete(row)
            session.flush()
            row = None
        recorded = _record(session, row or Installation(), parts, storage, original)
    _write_marker(storage, recorded)
    previous = marker.database if marker and marker.place != parts.place else None
    return Adoption(parts, previous, has_other_key, original)


def open_guarded_storage(settings: Settings, database: Database) -> Storage:
    """Open the storage for a process that deletes files: it does so only while the installation holds."""
    storage = open_storage(settings.storage)
    return cast(Storage, _GuardedStorage(storage, lambda: check_installation(settings, database, storage)))


def find_original(storage: Storage) -> str | None:
    """Return the address of the storage that this service's is a copy of; None for a service that is no copy."""
    marker = _read_marker(storage)
    return marker.original if marker else None


class _GuardedStorage:
    """A storage whose `delete` makes sure at most once a minute that the installation holds."""

    def __init__(self, inner: Storage, check: Callable[[], None]) -> None:
        self._inner = inner
        self._check = check
        self._lock = Lock()
        self._checked_at = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def delete(self, key: str) -> None:
        with self._lock:
            if time.monotonic() - self._checked_at > CHECK_SECONDS:
                try:
                    self._check()
                except ForeignInstallation as error:
                    log.error("no files are deleted", reason=error.sentence)
                    raise Conflict(DELETES_NOTHING, code=CODE) from error
                self._checked_at = time.monotonic()
        self._inner.delete(key)


@contextmanager
def _lock_rows(database: Database) -> Generator[Session]:
    with database.write() as session:
        if database.sqlite_path is None:
            session.execute(select(func.pg_advisory_xact_lock(LOCK)))
        yield session


def _refuse(contradiction: tuple[str, str] | None) -> None:
    if contradiction is not None:
        raise ForeignInstallation(*contradiction)


def _find_doubt(session: Session, parts: Parts, storage: Storage) -> tuple[str, str] | None:
    """Return why a database of an earlier version, which has no row yet, was used with other parts."""
    if parts.key_id is None:
        return _describe_wrong_key(parts), RESTORE_KEY
    organizations = session.scalars(select(Organization.id)).all()
    has_versions = session.scalar(select(DatasetVersion.id).limit(1)) is not None
    if has_versions and not any(True for each in organizations for _ in storage.list(each)):
        sentence = f"The database {parts.database} has datasets, and the storage {parts.storage} none of their files."
        return sentence, ADOPT
    return None


def _find_original(parts: Parts, row: Installation | None, marker: Marker | None) -> str:
    """Return the address of the original's storage; raise Conflict when a copy cannot have this storage."""
    if row is None:
        raise Conflict("The database does not say which storage it was used with: start the original, then copy it.")
    taken = f"The storage {parts.storage} belongs to"
    if row.storage == parts.storage:
        raise Conflict(f"{taken} the original. Set SPINDLE_STORAGE to an address of the copy's own.")
    if marker is not None and marker.id != row.id and marker.place != parts.place:
        raise Conflict(f"{taken} the database {marker.database}. Set SPINDLE_STORAGE to an address of the copy's own.")
    return row.storage


def _record(session: Session, row: Installation, parts: Parts, storage: Storage, original: str | None) -> Marker:
    """Write the row, and the marker as pending before the transaction ends; return the one to write after it."""
    row.token, row.previous_token = token_hex(16), None
    row.storage, row.key_id = parts.storage, parts.key_id or ""
    session.add(row)
    session.flush()
    marker = Marker(id=row.id, token=row.token, place=parts.place, database=parts.database, original=original)
    _write_marker(storage, marker.model_copy(update={"is_pending": True}))
    return marker


def _replace_key(settings: Settings, parts: Parts) -> Parts:
    """Return the parts with the id of the key, which is made if there is none."""
    return Parts(parts.database, parts.place, parts.storage, KeyRing(load_service_key(settings)).service_key_id)


def _read_marker(storage: Storage) -> Marker | None:
    try:
        with storage.open(MARKER) as file:
            return Marker.model_validate_json(file.read())
    except (NotStored, ValidationError):
        return None
    except OSError as error:
        raise describe_disk_fault(error, STORAGE) from error


def _write_marker(storage: Storage, marker: Marker) -> None:
    try:
        storage.put(MARKER, BytesIO(marker.model_dump_json(indent=1).encode()))
    except OSError as error:
        raise describe_disk_fault(error, STORAGE) from error


def _describe_parts(settings: Settings, database: Database) -> Parts:
    key = find_service_key(settings)
    return Parts(
        database=_describe_database(database),
        place=_locate_database(settings, database),
        storage=_describe_storage(settings),
        key_id=KeyRing(key).service_key_id if key else None,
    )


def _describe_database(database: Database) -> str:
    url = database.engine.url
    return url.set(drivername=url.get_backend_name(), password=None, query={}).render_as_string()


def _describe_storage(settings: Settings) -> str:
    if not is_bucket(settings.storage):
        return str(get_local_folder(settings.storage).resolve())
    bucket, prefix = split_address(settings.storage.address or "") or ("", "")
    return f"s3://{bucket}/{prefix.strip('/')}".rstrip("/")


def _locate_database(settings: Settings, database: Database) -> str:
    """Return a name of the database's place, which differs for a copy and survives restarts and renamed folders."""
    if database.sqlite_path is not None:
        path = database.sqlite_path.resolve()
        is_beside = path.parent == Path(_describe_storage(settings)).parent
        return BESIDE if is_beside else f"file {path.stat().st_ino}"
    with database.read() as session:
        oid = session.scalar(text("SELECT oid FROM pg_database WHERE datname = current_database()"))
        may_ask = session.scalar(select(func.has_function_privilege("pg_control_system()", "EXECUTE")))
        system = session.scalar(text("SELECT system_identifier FROM pg_control_system()")) if may_ask else "?"
    return f"PostgreSQL {system}, database {oid}"
