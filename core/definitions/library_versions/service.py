"""Builds of the engine: the running one, which registers itself, and uploaded ones. They belong to the operator."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from io import BytesIO
from pathlib import Path
from typing import Any

from sqlalchemy import Select, select
from sqlalchemy.orm import Session

from core.definitions.library_versions.models import LibraryVersionCreate, LibraryVersionUpdate
from core.errors import BadInput, Conflict, NotFound
from core.infra.database import Database
from core.infra.settings import Settings
from core.infra.storage.protocol import MANIFEST, NotStored, Storage, library_key
from core.infra.validation import is_storable
from core.infra.wheels import unpack_wheel
from core.tables import Job, LibraryVersion, Project
from core.tables.executions import FrozenBuild
from driver.protocol import FILE, describe_mismatch, parse_protocol
from pipelines.registry import ENGINE

RUNNING = "running"  # the build type of the engine that executes by default
SELECTION = "etlLibraryVersionId"  # the parameter of a project or job that selects a version
_PARTS = 3  # of the path of a file: libraries/<sha-256>/<name>


@dataclass(frozen=True, slots=True)
class LibraryFile:
    """A file that was uploaded for versions."""

    path: str
    size_bytes: int
    digest: str


def register_running(database: Database) -> None:
    """Store the running engine as a version, where it is not stored yet."""
    with database.write() as session:
        row = session.scalar(_select(RUNNING, 0))
        if row is None:
            description = "The engine that this service runs. It executes what selects no version."
            session.add(
                LibraryVersion(build_type=RUNNING, build_number=0, version=version(ENGINE), description=description)
            )
        elif row.version != version(ENGINE):
            row.version = version(ENGINE)


def store_file(storage: Storage, source: Path, file_name: str, folder: Path) -> LibraryFile:
    """Store a wheel of the engine; raise BadInput or TooLarge for any other file."""
    wheel = unpack_wheel(source, file_name, folder)
    if not file_name.startswith(f"{ENGINE}-"):
        raise BadInput(f"'{file_name[:200]}' is not a wheel of {ENGINE}.", code="invalid-plugin", path="file")
    protocol = folder / FILE
    facts = {"protocol": parse_protocol(protocol.read_text("utf-8", "replace")) if protocol.is_file() else None}
    storage.put(library_key(wheel.digest, MANIFEST), BytesIO(json.dumps(facts).encode()))
    key = library_key(wheel.digest, file_name)
    with source.open("rb") as content:
        stored = storage.put(key, content)
    return LibraryFile(key, stored.size_bytes, wheel.digest)


def list_versions(session: Session, build_type: str | None, *, active_only: bool) -> Sequence[LibraryVersion]:
    query = select(LibraryVersion).order_by(LibraryVersion.id)
    if build_type is not None:
        if not is_storable(build_type):
            return []
        query = query.where(LibraryVersion.build_type == build_type)
    return session.scalars(query.where(LibraryVersion.active) if active_only else query).all()


def get_version(session: Session, version_id: int) -> LibraryVersion:
    found = session.get(LibraryVersion, version_id) if 0 < version_id < 2**31 else None
    if found is None:
        raise NotFound("There is no version of the engine with this id.")
    return found


def get_build(session: Session, build_type: str, build_number: int) -> LibraryVersion:
    is_possible = is_storable(build_type) and 0 <= build_number < 2**31
    found = session.scalar(_select(build_type, build_number)) if is_possible else None
    if found is None:
        raise NotFound("There is no version of the engine with this build type and build number.")
    return found


def create_version(session: Session, storage: Storage, new: LibraryVersionCreate) -> LibraryVersion:
    """Store a version; raise Conflict for a build that is there, BadInput for a file that was not uploaded."""
    columns = {"version": "", **new.to_columns()}
    _check_free(session, new.build_type, new.build_number)
    row = LibraryVersion(**columns)
    _set_file(row, storage, new.jar_path)
    session.add(row)
    session.flush()
    return row


def update_version(
    session: Session, storage: Storage, version_id: int, changes: LibraryVersionUpdate
) -> LibraryVersion:
    row, columns = _get_changeable(session, version_id), changes.to_columns()
    build_type, build_number = changes.build_type or row.build_type, row.build_number
    if changes.build_number is not None:
        build_number = changes.build_number
    if (build_type, build_number) != (row.build_type, row.build_number):
        _check_free(session, build_type, build_number)
    for name, value in columns.items():
        setattr(row, name, value)
    _set_file(row, storage, changes.jar_path)
    session.flush()
    return row


def delete_version(session: Session, version_id: int) -> None:
    """Delete a version; raise Conflict while a project or job has selected it."""
    row = _get_changeable(session, version_id)
    for table in (Project, Job):
        for name, parameters in session.execute(select(table.name, table.parameters)):
            if _read_selection(parameters) == str(row.id):
                sentence = f"The {table.__name__.lower()} '{name}' has selected this version. Change it first."
                raise Conflict(sentence, code="version-in-use")
    session.delete(row)


def select_build(session: Session, settings: Settings, *parameters: Mapping[str, object]) -> FrozenBuild | None:
    """Return the build that the first selection among the parameters names; None for the running engine.

    Raise Conflict for a build that is not there, is not active, or cannot drive executions of this service.
    """
    selected = next(filter(None, map(_read_selection, parameters)), None)
    if selected is None:
        return None
    known = {str(each.id): each for each in list_versions(session, None, active_only=True)}
    found = known.get(selected)
    if found is None:
        sentence = f"There is no active version of the engine with the id '{selected[:60]}'."
        raise Conflict(sentence, code="unknown-library-version", path=SELECTION)
    if found.build_type == RUNNING:
        return None
    if reason := _find_obstacle(found, settings):
        sentence = f"Build {found.build_number} of {found.build_type} {reason}."
        raise Conflict(sentence, code="unusable-library-version", path=SELECTION)
    file_name = (found.jar_path or "").rpartition("/")[2]
    return FrozenBuild(found.version, found.digest or "", file_name, found.protocol)


def _find_obstacle(row: LibraryVersion, settings: Settings) -> str | None:
    """Return why drivers cannot run a build; None where they can."""
    if row.jar_path is None:
        return "has no file: upload one, and set its jarPath"
    if settings.drivers.compute == "kubernetes":
        return "cannot drive executions in pods, whose image has the engine"
    return describe_mismatch(row.protocol)


def _read_selection(parameters: Mapping[str, object]) -> str | None:
    value = parameters.get(SELECTION)
    return None if value in (None, "") else str(value)


def _select(build_type: str, build_number: int) -> Select[tuple[LibraryVersion]]:
    same = (LibraryVersion.build_type == build_type, LibraryVersion.build_number == build_number)
    return select(LibraryVersion).where(*same)


def _get_changeable(session: Session, version_id: int) -> LibraryVersion:
    row = get_version(session, version_id)
    if row.build_type == RUNNING:
        raise Conflict("The running version registers itself and cannot be changed.", code="version-in-use")
    return row


def _check_free(session: Session, build_type: str, build_number: int) -> None:
    if build_type == RUNNING:
        raise BadInput(f"'{RUNNING}' is the build type of the running engine.", path="buildType")
    if session.scalar(_select(build_type, build_number)):
        sentence = "There is a version of this build type and build number already."
        raise Conflict(sentence, code="version-exists", path="buildNumber")


def _set_file(row: LibraryVersion, storage: Storage, path: str | None) -> None:
    """Set the file of a version, with the size and checksum that it has; raise BadInput for an unknown path."""
    if not path or path == row.jar_path:
        return
    parts = path.split("/")
    found = None
    if len(parts) == _PARTS and path == library_key(*parts[1:]) and is_storable(path) and parts[2] != MANIFEST:
        found = next((each for each in storage.list("/".join(parts[:2])) if each.key == path), None)
    if found is None:
        sentence = "No file was uploaded under this path. Upload it first: POST …/etl-library-versions/upload."
        raise BadInput(sentence, code="unknown-file", path="jarPath")
    row.jar_path, row.jar_size_bytes, row.digest = path, found.size_bytes, parts[1]
    row.protocol = _read_facts(storage, parts[1]).get("protocol")


def _read_facts(storage: Storage, digest: str) -> Mapping[str, Any]:
    """Return the facts of a stored wheel; none for one that was uploaded before they were kept."""
    try:
        with storage.open(library_key(digest, MANIFEST)) as stored:
            return json.loads(stored.read())
    except NotStored:
        return {}
