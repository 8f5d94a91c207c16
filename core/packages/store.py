"""Packages in storage: exports and uploads of an organization, kept for a week."""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from uuid import UUID, uuid5

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from core.errors import Conflict, NotFound
from core.infra.database import Database
from core.infra.settings import Settings
from core.infra.storage import package_path, settle, sync
from core.infra.validation import storable
from core.packages import archive
from core.packages.collecting import collect
from core.packages.importing import Report, apply, of_project, sound_pipelines
from core.projects.repository import ProjectRepository
from core.tables import Package, new_id, now

EXPORT, UPLOAD = "EXPORT", "UPLOAD"
RETENTION = timedelta(days=7)


class Packages:
    """The packages of one organization."""

    def __init__(self, settings: Settings, database: Database, organization_id: str) -> None:
        self._settings = settings
        self._database = database
        self._organization_id = organization_id

    def export(self, project_id: str | None = None) -> str:
        """The id of a package of all projects, or of one: as long as nothing changes, the same."""
        with self._database.read() as session:
            content = archive.write(collect(session, self._organization_id, project_id))
        made = self._new(EXPORT)
        with incoming(self._settings, made) as file:
            file.write_bytes(content)
            digest = _written(file)
            with self._database.write() as session:
                self._prune(session)
                same = self._own(session, EXPORT, Package.digest == digest)
                package = same[0] if same else made
                package.updated_at = now()
                session.add(package)
                _keep(self._settings, package, file, digest)
                return package.id

    def newest_export(self) -> str:
        """The id of the latest export; made now, of all projects, when there is none."""
        with self._database.read() as session:
            found = self._own(session, EXPORT)
        return found[0].id if found else self.export()

    def exported(self, package_id: str) -> str:
        """The id again, if it is that of an export; raises NotFound."""
        with self._database.read() as session:
            return self._one(session, EXPORT, package_id).id

    def expect_upload(self) -> str:
        """The id of a package that is yet to come."""
        with self._database.write() as session:
            self._prune(session)
            package = self._new(UPLOAD)
            session.add(package)
            return package.id

    def import_upload(
        self, upload_id: str | None, project_id: str | None = None, *, key_id: str | None = None
    ) -> tuple[str, Report]:
        """Takes in the upload, the latest without an id: all of it, or what it has under the project's name.

        Again it gives the same id and changes nothing more. Raises Conflict before anything was uploaded.
        """
        with self._database.read() as session:
            project = ProjectRepository(session, self._organization_id).get(project_id) if project_id else None
            package = self._arrived(session, upload_id)
        with content_of(self._settings, package).open("rb") as file:
            contents = archive.read(file)
        if project is not None:
            contents = of_project(contents, project.name)
        sound = sound_pipelines(contents)
        with self._database.write() as session:
            report = apply(session, self._organization_id, contents, key_id=key_id, sound=sound)
        return str(uuid5(UUID(package.id), project.id if project else "")), report

    def _arrived(self, session: Session, upload_id: str | None) -> Package:
        if upload_id is not None:
            package = self._one(session, UPLOAD, upload_id)
            if package.digest is None:
                raise Conflict("Nothing was uploaded to this link yet.")
            return package
        found = self._own(session, UPLOAD, Package.digest.is_not(None))
        if not found:
            raise Conflict("There is no package to import. Upload one first.")
        return found[0]

    def _one(self, session: Session, kind: str, package_id: str) -> Package:
        found = self._own(session, kind, Package.id == package_id) if storable(package_id) else ()
        if not found:
            raise NotFound(f"There is no {kind.lower()} with this id.")
        return found[0]

    def _own(self, session: Session, kind: str, *conditions: object) -> Sequence[Package]:
        """Latest first."""
        own = select(Package).where(Package.organization_id == self._organization_id, Package.kind == kind)
        latest = own.where(*conditions).order_by(Package.updated_at.desc(), Package.id.desc())  # pyright: ignore[reportArgumentType]
        return session.scalars(latest.limit(1)).all()

    def _new(self, kind: str) -> Package:
        return Package(id=new_id(), organization_id=self._organization_id, kind=kind)

    def _prune(self, session: Session) -> None:
        """Forgets what is older than a week, also files whose transaction failed."""
        before = now() - RETENTION
        own = Package.organization_id == self._organization_id
        session.execute(delete(Package).where(own, Package.updated_at < before))
        for file in package_path(self._settings, self._organization_id, "any").parent.glob("*"):
            with suppress(FileNotFoundError):  # another request's, which takes it to its place just now
                if file.stat().st_mtime < before.timestamp():
                    file.unlink()


def linked(database: Database, package_id: str) -> Package:
    """The package behind a signed link, whose organization nobody needs to name; raises NotFound."""
    with database.read() as session:
        package = session.get(Package, package_id) if storable(package_id) else None
    if package is None:
        raise NotFound("There is no package behind this link any more.")
    return package


def content_of(settings: Settings, package: Package) -> Path:
    """Where the content of a package lies; raises NotFound when it was not kept."""
    path = _path(settings, package)
    if not path.is_file():
        raise NotFound("This package is not kept any more.")
    return path


@contextmanager
def incoming(settings: Settings, package: Package) -> Generator[Path]:
    """A place for the content of a package while it comes; it is gone afterwards, unless it was kept."""
    path = _path(settings, package).with_suffix(f".{new_id()}")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)


def receive(settings: Settings, database: Database, package: Package, file: Path) -> Package:
    """Keeps an upload that is a whole package; raises BadInput or TooLarge for anything else, and keeps nothing.

    A link takes one package: the same again changes nothing, another one is a Conflict.
    """
    with file.open("rb") as content:
        archive.read(content)
    digest = _written(file)
    with database.write() as session:
        stored = session.get_one(Package, package.id, with_for_update=True)
        if stored.digest not in (None, digest):
            raise Conflict("This link has brought its package already. Ask for a new one.")
        stored.updated_at = now()
        _keep(settings, stored, file, digest)
        return stored


def _keep(settings: Settings, package: Package, file: Path, digest: str) -> None:
    """Takes the content to its place, whole, before the row that tells of it is committed."""
    package.digest, package.size_bytes = digest, file.stat().st_size
    settle(settings, file, _path(settings, package))


def _written(file: Path) -> str:
    """The digest of the content once it is on disk: before the transaction, for other writers wait for its end."""
    sync(file)
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _path(settings: Settings, package: Package) -> Path:
    return package_path(settings, package.organization_id, package.id)
