"""Packages: export, import, and signed links to their content that need no key."""

from __future__ import annotations

import tempfile
from typing import Annotated, BinaryIO

import anyio
from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from api.kit.auth import Admin, KeyRoute
from api.kit.concurrency import PACKAGES, UPLOADS
from api.kit.errors import answers
from api.kit.idempotency import REPLAYED
from api.kit.middleware import get_content_length
from api.kit.ranges import read_requested_part
from api.kit.schemas import ProjectId
from api.kit.services import Services, ServicesOf
from api.kit.streams import BlockingStream
from api.packages.schemas import ExportLink, Import, Uploaded, UploadLink, build_import
from core.errors import TooLarge
from core.integrations.packages.archive import MAX_PACKAGE

PREFIX = "/package"
LINKS = "/package-links"
BODY_SECONDS = 600
router = APIRouter(prefix=PREFIX, tags=["packages"], route_class=KeyRoute)
links = APIRouter(prefix=LINKS, include_in_schema=False)

ExportId = Annotated[str | None, Query(alias="exportId", description="Of which export; the latest when left out.")]
UploadId = Annotated[str | None, Query(alias="uploadId", description="Of which upload; the latest when left out.")]
PackageId = Annotated[str, Path(alias="packageId")]


def _build_link(request: Request, services: Services, method: str, package_id: str) -> str:
    """Return a signed link. Without a public URL it names the address that the request came to, not its Host header."""
    api = services.settings.api
    host, port = request.scope["server"]
    listening = api.model_copy(update={"public_url": f"http://{f'[{host}]' if ':' in host else host}:{port}"})
    base = (api if api.public_url else listening).service_url
    return f"{base}{LINKS}/{package_id}?{services.packages.sign_link(method, package_id)}"


def _link_export(request: Request, services: Services, export_id: str) -> ExportLink:
    return ExportLink(export_id=export_id, url=_build_link(request, services, "GET", export_id))


@router.get(
    "/download",
    summary="A link to download a package",
    description="The link needs no key and expires after an hour. Without an export, all projects are exported.",
    responses=answers(404),
)
def link_download(request: Request, caller: Admin, services: ServicesOf, export_id: ExportId = None) -> ExportLink:
    return _link_export(request, services, services.packages.find_export(caller, export_id))


@router.get(
    "/upload",
    summary="A link to upload a package to",
    description="Takes a PUT of the package's bytes, without a key, for an hour. An import then takes it in.",
)
def link_upload(request: Request, caller: Admin, services: ServicesOf) -> UploadLink:
    upload_id = services.packages.create_upload(caller)
    return UploadLink(url=_build_link(request, services, "PUT", upload_id), upload_id=upload_id)


@router.get("/export/all", summary="Export all projects", responses=answers(413))
def export_all(request: Request, caller: Admin, services: ServicesOf) -> ExportLink:
    """Package all projects with their jobs, agents and categories, without secrets, and return a link to download the
    package. As long as nothing changes, the export is the same one."""
    return _link_export(request, services, services.packages.export(caller))


@router.get("/export/id/{projectId}", summary="Export a project", responses=answers(404, 413))
def export_project(project_id: ProjectId, request: Request, caller: Admin, services: ServicesOf) -> ExportLink:
    """Package a project with its jobs and the agents and categories that they use, without secrets, and return a link
    to download the package."""
    return _link_export(request, services, services.packages.export(caller, project_id))


@router.get(
    "/import/all",
    dependencies=[REPLAYED],
    summary="Import an uploaded package, all or nothing",
    responses=answers(404, 409, 413),
)
def import_all(caller: Admin, services: ServicesOf, upload_id: UploadId = None) -> Import:
    """Import the caller's last upload, or the one with the given id.

    Records are matched by name and created or changed in one transaction. A repeated import changes nothing. Without a
    valid upload it is 409.
    """
    with PACKAGES.acquire(caller.organization_id):
        return build_import(*services.packages.import_upload(caller, upload_id))


@router.get(
    "/import/id/{projectId}",
    dependencies=[REPLAYED],
    summary="Import what an uploaded package has of this project, by its name",
    responses=answers(404, 409, 413),
)
def import_project(project_id: ProjectId, caller: Admin, services: ServicesOf, upload_id: UploadId = None) -> Import:
    """Import from the caller's last upload the project that has this project's name, with what it uses, in one
    transaction."""
    with PACKAGES.acquire(caller.organization_id):
        return build_import(*services.packages.import_upload(caller, upload_id, project_id))


@links.get("/{packageId}")
def download(
    package_id: PackageId, request: Request, services: ServicesOf, expires: str = "", signature: str = ""
) -> StreamingResponse:
    services.packages.check_link("GET", package_id, expires, signature)
    package = services.packages.find_linked(package_id)
    tag = package.digest or package.id
    content, status, described = read_requested_part(request, services.packages.open_content(package), tag)
    headers = {
        "Content-Disposition": f'attachment; filename="spindle-{tag[:12]}.zip"',
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "no-store",
    }
    return BlockingStream(content, status, media_type="application/zip", headers=headers | described)


@links.put("/{packageId}")
async def upload(
    package_id: PackageId, request: Request, services: ServicesOf, expires: str = "", signature: str = ""
) -> Uploaded:
    """Store the body as the upload's content. The link is checked before the body is read."""
    services.packages.check_link("PUT", package_id, expires, signature)
    owner = (await run_in_threadpool(services.packages.find_linked, package_id)).organization_id
    with UPLOADS.acquire(owner), tempfile.TemporaryFile() as file:
        try:
            with anyio.fail_after(BODY_SECONDS):
                await _receive(request, file)
        except (TimeoutError, ClientDisconnect) as error:
            raise HTTPException(408, headers={"Connection": "close"}) from error
        except (TooLarge, HTTPException):
            await run_in_threadpool(services.packages.reject_upload, package_id)
            raise
        with PACKAGES.acquire(owner):
            stored = await run_in_threadpool(services.packages.store_upload, package_id, file)
    return Uploaded(upload_id=stored.id, sha256=stored.digest or "", size_bytes=stored.size_bytes or 0)


async def _receive(request: Request, file: BinaryIO) -> None:
    """Copy the body to a file; raise TooLarge, before reading it if its size is announced."""
    if get_content_length(request.scope) > MAX_PACKAGE:
        raise _make_too_large()
    received, content = 0, anyio.wrap_file(file)
    async for chunk in request.stream():
        received += len(chunk)
        if received > MAX_PACKAGE:
            raise _make_too_large()
        await content.write(chunk)


def _make_too_large() -> TooLarge:
    return TooLarge(f"A package has at most {MAX_PACKAGE} bytes.")
