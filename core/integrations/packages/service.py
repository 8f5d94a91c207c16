"""Packages of an organization: export, upload and import, and signed links that need no API key."""

from __future__ import annotations

import hashlib
import hmac
import io
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import BinaryIO
from urllib.parse import urlencode
from uuid import UUID, uuid5

from sqlalchemy import ColumnElement, delete, select
from sqlalchemy.orm import Session

from core.definitions.identity.api_keys import Identity
from core.definitions.projects.repository import ProjectRepository
from core.errors import BadInput, Conflict, NotFound, TooLarge, Unauthorized
from core.infra.cleanup import Cleanup
from core.infra.database import Database, execute_update
from core.infra.secrets import load_service_key
from core.infra.settings import Settings
from core.infra.storage.protocol import NotStored, Storage, package_key, packages_key
from core.infra.validation import is_storable
from core.integrations.declarations.export import export_declaration
from core.integrations.declarations.models import Declaration
from core.integrations.declarations.service import Application, apply
from core.integrations.packages.archive import pack, reject, unpack
from core.tables import Package, new_id, now
from pipelines.errors import PipelineError
from pipelines.language import nodes as document
from pipelines.planning.stage import STAGES
from pipelines.registry import ENGINE

EXPORT, UPLOAD = "EXPORT", "UPLOAD"
LINK_LIFETIME = timedelta(hours=1)


class PackageService:
    """Exports, uploads and imports."""

    def __init__(self, settings: Settings, database: Database, storage: Storage) -> None:
        self._settings = settings
        self._database = database
        self._storage = storage

    def export(self, caller: Identity, project_id: str | None = None) -> str:
        """Package one project or all, and return the export's id: the same one as long as nothing changes."""
        owner = caller.organization_id
        with self._database.read() as session:
            project = ProjectRepository(session, owner).get(project_id) if project_id else None
            declaration = export_declaration(session, caller)
        if project is not None:
            declaration = _select_project(declaration, project.name)
        package = pack(declaration, find_plugins(declaration))
        digest = hashlib.sha256(package).hexdigest()
        self._storage.put(package_key(owner, digest), io.BytesIO(package))
        with self._database.write() as session:
            same = _find_newest(session, owner, EXPORT, Package.digest == digest)
            row = same or Package(id=new_id(), organization_id=owner, kind=EXPORT, digest=digest)
            row.size_bytes, row.updated_at = len(package), now()
            session.add(row)
            return row.id

    def find_export(self, caller: Identity, export_id: str | None) -> str:
        """Return the id of an export, by default the newest one, made now if there is none. Raises NotFound."""
        with self._database.read() as session:
            if export_id is not None:
                return _get(session, caller.organization_id, EXPORT, export_id).id
            newest = _find_newest(session, caller.organization_id, EXPORT)
        return newest.id if newest else self.export(caller)

    def create_upload(self, caller: Identity) -> str:
        """Return the id of a package whose content is yet to be uploaded."""
        with self._database.write() as session:
            package = Package(id=new_id(), organization_id=caller.organization_id, kind=UPLOAD)
            session.add(package)
            return package.id

    def store_upload(self, package_id: str, content: BinaryIO) -> Package:
        """Store the content of an upload. Raises BadInput or TooLarge unless it is a valid package.

        An upload accepts the same content again; other content is a Conflict.
        """
        try:
            unpack(content)
        except (BadInput, TooLarge):
            self.reject_upload(package_id)
            raise
        digest = _hash(content)
        content.seek(0)
        package = self.find_linked(package_id)
        stored = self._storage.put(package_key(package.organization_id, digest), content)
        with self._database.write() as session:
            package = session.get_one(Package, package_id, with_for_update=True)
            if package.digest not in (None, digest):
                raise Conflict("This link has received a package already. Ask for a new one.", code="link-used")
            package.digest, package.size_bytes, package.updated_at = digest, stored.size_bytes, now()
            return package

    def reject_upload(self, package_id: str) -> None:
        """Note that the content sent to an upload was no valid package, unless it has received one already."""
        with self._database.write() as session:
            package = session.get_one(Package, package_id, with_for_update=True)
            if package.digest is None:
                package.size_bytes, package.updated_at = 0, now()

    def import_upload(
        self, caller: Identity, upload_id: str | None, project_id: str | None = None
    ) -> tuple[str, Application]:
        """Import an upload, the newest without an id: all of it, or the project of the given project's name.

        A repeated import returns the same id and changes nothing more. Raises Conflict before anything was uploaded.
        """
        owner = caller.organization_id
        with self._database.read() as session:
            project = ProjectRepository(session, owner).get(project_id) if project_id else None
            package = _find_upload(session, owner, upload_id)
        with self.open_content(package) as content:
            declaration = unpack(content)
        if project is not None:
            declaration = _select_project(declaration, project.name)
        try:
            application = apply(self._database, self._settings, caller, declaration, complete=True)
        except (BadInput, Conflict) as error:
            raise reject(error.sentence, error.details[0].path if error.details else "package") from error
        return str(uuid5(UUID(package.id), project.id if project else "")), application

    def find_linked(self, package_id: str) -> Package:
        """Return the package of a signed link, of whichever organization. Raises NotFound."""
        with self._database.read() as session:
            package = session.get(Package, package_id) if is_storable(package_id) else None
        if package is None:
            raise NotFound("The package of this link does not exist any more.")
        return package

    def open_content(self, package: Package) -> BinaryIO:
        """Open the content of a package. Raises NotFound before the upload and after a week."""
        try:
            return self._storage.open(package_key(package.organization_id, package.digest or ""))
        except NotStored:
            raise NotFound("This package is not stored any more.") from None

    def sign_link(self, method: str, package_id: str) -> str:
        """Return the query of a link that allows one method on one package for an hour."""
        expires = int((now() + LINK_LIFETIME).timestamp())
        return urlencode({"expires": expires, "signature": self._sign(method, package_id, str(expires))})

    def check_link(self, method: str, package_id: str, expires: str, signature: str) -> None:
        """Raise Unauthorized unless the link was signed for this method and package and has not expired."""
        expected = self._sign(method, package_id, expires)
        genuine = hmac.compare_digest(expected.encode(), signature.encode("utf-8", "replace"))
        if not genuine or int(expires) < now().timestamp():  # a genuine link has a number
            raise Unauthorized("This link is not valid, or it has expired. Ask for a new one.")

    def _sign(self, method: str, package_id: str, expires: str) -> str:
        message = f"package-link:{method}:{package_id}:{expires}"
        return hmac.digest(load_service_key(self._settings), message.encode("utf-8", "replace"), "sha256").hex()


def delete_old_packages(
    cleanup: Cleanup, database: Database, storage: Storage, organization_id: str, before: datetime
) -> None:
    """Delete the packages that nobody has exported or uploaded since a time."""
    with cleanup.write(database) as session:
        old = (Package.organization_id == organization_id, Package.updated_at < before)
        execute_update(session, delete(Package).where(*old))
    for file in storage.list(packages_key(organization_id)):
        if file.modified_at < before:
            cleanup.delete_file("packages", storage, file)


def find_plugins(declaration: Declaration) -> list[str]:
    """Return the names of the distributions, besides the engine, whose stages the declared pipelines use."""
    texts = (agent.pipeline for agent in declaration.agents or ())
    return sorted({plugin for text in texts if isinstance(text, str) for plugin in _find_stage_owners(text)} - {ENGINE})


def _find_stage_owners(pipeline: str) -> Iterator[str]:
    try:
        root = document.parse(pipeline).to_plain()
    except PipelineError:
        return  # stored by an earlier version with other rules
    stages = root.get("pipeline") if isinstance(root, dict) else None
    for item in stages if isinstance(stages, list) else ():
        name = str(item.get("stage")) if isinstance(item, dict) else ""
        stage = STAGES.get(name.partition(":")[0])
        if stage is not None:
            yield stage.plugin


def _select_project(declaration: Declaration, name: str) -> Declaration:
    selected = declaration.select_project(name)
    if selected is None:
        raise reject(f"It has no project '{name}'.", "projects", "not-found")
    return selected


def _hash(content: BinaryIO) -> str:
    digest = hashlib.sha256()
    content.seek(0)
    while chunk := content.read(2**20):
        digest.update(chunk)
    return digest.hexdigest()


def _find_upload(session: Session, organization_id: str, upload_id: str | None) -> Package:
    """Return an upload that has content. Raises NotFound or Conflict."""
    if upload_id is None:
        package = _find_newest(session, organization_id, UPLOAD, Package.size_bytes.is_not(None))
        if package is None:
            raise Conflict("There is no package to import. Upload one first.", code="no-upload")
    else:
        package = _get(session, organization_id, UPLOAD, upload_id)
    if package.size_bytes is None:
        raise Conflict("Nothing was uploaded to this link yet.", code="no-upload")
    if package.digest is None:
        raise Conflict("The last upload was not a valid package. Upload a valid one.", code="no-upload")
    return package


def _get(session: Session, organization_id: str, kind: str, package_id: str) -> Package:
    found = is_storable(package_id) and _find_newest(session, organization_id, kind, Package.id == package_id)
    if not found:
        raise NotFound(f"There is no {kind.lower()} with this id.")
    return found


def _find_newest(session: Session, organization_id: str, kind: str, *conditions: ColumnElement[bool]) -> Package | None:
    query = select(Package).where(Package.organization_id == organization_id, Package.kind == kind, *conditions)
    return session.scalar(query.order_by(Package.updated_at.desc(), Package.id.desc()).limit(1))
