"""Builds of the engine: list, upload, create, change, delete."""

from __future__ import annotations

from pathlib import Path as FilePath
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request

from api.kit.auth import Admin, KeyRoute, SuperAdmin
from api.kit.errors import answers
from api.kit.idempotency import REPLAYED
from api.kit.multipart import Form
from api.kit.schemas import Nothing
from api.kit.services import ServicesOf
from api.kit.sessions import ReadSession, WriteSession
from api.kit.uploads import describe_form, receive_wheel
from api.library_versions.schemas import LibraryVersionRecord, UploadedFile, build_version_record
from core.definitions.library_versions import service as versions
from core.definitions.library_versions.models import LibraryVersionCreate, LibraryVersionUpdate

router = APIRouter(prefix="/admin/etl-library-versions", tags=["plugins"], route_class=KeyRoute)

UPLOAD = "/upload"
VersionId = Annotated[int, Path(alias="id", description="Id of the version, an integer.")]


@router.get("", summary="List the versions of the engine")
def list_versions(
    _caller: Admin,
    session: ReadSession,
    build_type: Annotated[str | None, Query(alias="buildType", description="Kind of the builds.")] = None,
    active_only: Annotated[bool, Query(alias="activeOnly", description="Without inactive ones.")] = False,
) -> list[LibraryVersionRecord]:
    """Return the running version, and those that a super_admin has stored, oldest first."""
    found = versions.list_versions(session, build_type, active_only=active_only)
    return [build_version_record(each) for each in found]


@router.post(
    UPLOAD, summary="Upload a wheel of the engine", responses=answers(408, 413), openapi_extra=describe_form({})
)
async def upload_version(request: Request, caller: SuperAdmin, services: ServicesOf) -> UploadedFile:
    """Check and store a wheel, and return the `jarPath` that names it in a version."""

    def store(form: Form, source: FilePath, folder: FilePath) -> UploadedFile:
        unpacked = folder / "package"
        unpacked.mkdir()
        stored = versions.store_file(services.storage, source, form.file_name or "", unpacked)
        return UploadedFile(jar_path=stored.path, jar_size_bytes=stored.size_bytes, digest=stored.digest)

    return await receive_wheel(request, caller.organization_id, services.plugin_uploads.open_scratch(), store)


@router.post("", dependencies=[REPLAYED], summary="Store a version of the engine", responses=answers(409))
def create_version(
    body: LibraryVersionCreate, _caller: SuperAdmin, session: WriteSession, services: ServicesOf
) -> LibraryVersionRecord:
    """Store a build of the engine. Its size and checksum are those of the file."""
    return build_version_record(versions.create_version(session, services.storage, body))


@router.get("/id/{id}", summary="Read a version of the engine", responses=answers(404))
def read_version(version_id: VersionId, _caller: Admin, session: ReadSession) -> LibraryVersionRecord:
    """Return a version."""
    return build_version_record(versions.get_version(session, version_id))


@router.put("/id/{id}", summary="Change a version of the engine", responses=answers(404, 409))
def update_version(
    version_id: VersionId,
    body: LibraryVersionUpdate,
    _caller: SuperAdmin,
    session: WriteSession,
    services: ServicesOf,
) -> LibraryVersionRecord:
    """Change the fields that the body has; the running version cannot be changed."""
    return build_version_record(versions.update_version(session, services.storage, version_id, body))


@router.delete("/id/{id}", summary="Delete a version of the engine", responses=answers(404, 409))
def delete_version(version_id: VersionId, _caller: SuperAdmin, session: WriteSession) -> Nothing:
    """Delete a version that no project and no job has selected."""
    versions.delete_version(session, version_id)
    return Nothing()


@router.get(
    "/build-type/{buildType}/build-number/{buildNumber}", summary="Read a build of the engine", responses=answers(404)
)
def read_build(
    build_type: Annotated[str, Path(alias="buildType", description="Kind of the build.")],
    build_number: Annotated[int, Path(alias="buildNumber", description="Number of the build.")],
    _caller: Admin,
    session: ReadSession,
) -> LibraryVersionRecord:
    """Return the version of this build."""
    return build_version_record(versions.get_build(session, build_type, build_number))
