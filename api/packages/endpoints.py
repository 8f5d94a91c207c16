"""Packages: export, import, and signed links for their content, which need no key."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import anyio
from fastapi import APIRouter, Query, Request
from fastapi import Path as InPath
from fastapi.responses import FileResponse
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from api.kit.auth import Admin, KeyRoute
from api.kit.concurrency import PACKAGES, UPLOADS
from api.kit.errors import answers
from api.kit.schemas import ProjectId
from api.kit.services import Services, ServicesOf
from api.packages.schemas import ExportLink, Import, Uploaded, UploadLink, import_record
from core.errors import TooLarge
from core.packages.archive import MAX_PACKAGE
from core.packages.links import check_link, signed_query
from core.packages.store import Packages, content_of, incoming, linked, receive
from core.tables import now

PREFIX = "/package"
LINKS = "/package-links"
BODY_SECONDS = 600
router = APIRouter(prefix=PREFIX, tags=["packages"], route_class=KeyRoute)
links = APIRouter(prefix=LINKS, include_in_schema=False)

ExportId = Annotated[str | None, Query(alias="exportId", description="Of which export; the latest when left out.")]
UploadId = Annotated[str | None, Query(alias="uploadId", description="Of which upload; the latest when left out.")]
PackageId = Annotated[str, InPath(alias="packageId")]


def _packages(services: Services, organization_id: str) -> Packages:
    return Packages(services.settings, services.database, organization_id)


def _link(request: Request, services: Services, method: str, package_id: str) -> str:
    settings = services.settings
    public = settings.service_url if settings.public_url else f"{str(request.base_url).rstrip('/')}{_root(services)}"
    return f"{public}{LINKS}/{package_id}?{signed_query(settings, method, package_id, now())}"


def _exported(request: Request, services: Services, package_id: str) -> ExportLink:
    return ExportLink(export_id=package_id, url=_link(request, services, "GET", package_id))


def _root(services: Services) -> str:
    return f"{services.settings.root_path}/{services.settings.service_segment}/api"


@router.get(
    "/download",
    summary="A link to download a package",
    description="The link needs no key and expires after an hour. Without an export, all projects are exported.",
    responses=answers(404),
)
def link_download(request: Request, caller: Admin, services: ServicesOf, export_id: ExportId = None) -> ExportLink:
    packages = _packages(services, caller.organization_id)
    package_id = packages.exported(export_id) if export_id else packages.newest_export()
    return _exported(request, services, package_id)


@router.get(
    "/upload",
    summary="A link to upload a package to",
    description="Takes a PUT of the package's bytes, without a key, for an hour. An import then takes it in.",
)
def link_upload(request: Request, caller: Admin, services: ServicesOf) -> UploadLink:
    package_id = _packages(services, caller.organization_id).expect_upload()
    return UploadLink(url=_link(request, services, "PUT", package_id), upload_id=package_id)


@router.get("/export/all", summary="Export all projects", responses=answers(413))
def export_all(request: Request, caller: Admin, services: ServicesOf) -> ExportLink:
    return _exported(request, services, _packages(services, caller.organization_id).export())


@router.get("/export/id/{projectId}", summary="Export a project", responses=answers(404, 413))
def export_project(project_id: ProjectId, request: Request, caller: Admin, services: ServicesOf) -> ExportLink:
    return _exported(request, services, _packages(services, caller.organization_id).export(project_id))


@router.get("/import/all", summary="Import an uploaded package, all or nothing", responses=answers(404, 409, 413))
def import_all(caller: Admin, services: ServicesOf, upload_id: UploadId = None) -> Import:
    packages = _packages(services, caller.organization_id)
    with PACKAGES.seat(caller.organization_id):
        return import_record(*packages.import_upload(upload_id, key_id=caller.key_id))


@router.get(
    "/import/id/{projectId}",
    summary="Import what an uploaded package has of this project, by its name",
    responses=answers(404, 409, 413),
)
def import_project(project_id: ProjectId, caller: Admin, services: ServicesOf, upload_id: UploadId = None) -> Import:
    packages = _packages(services, caller.organization_id)
    with PACKAGES.seat(caller.organization_id):
        return import_record(*packages.import_upload(upload_id, project_id, key_id=caller.key_id))


@links.get("/{packageId}")
def download(package_id: PackageId, services: ServicesOf, expires: str = "", signature: str = "") -> FileResponse:
    check_link(services.settings, "GET", package_id, expires, signature, now())
    package = linked(services.database, package_id)
    name = f"spindle-{(package.digest or package.id)[:12]}.zip"
    headers = {
        "Content-Disposition": f'attachment; filename="{name}"',
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "no-store",
    }
    return FileResponse(content_of(services.settings, package), media_type="application/zip", headers=headers)


@links.put("/{packageId}")
async def upload(
    package_id: PackageId, request: Request, services: ServicesOf, expires: str = "", signature: str = ""
) -> Uploaded:
    """The link is checked before anything of the body is read."""
    check_link(services.settings, "PUT", package_id, expires, signature, now())
    package = await run_in_threadpool(linked, services.database, package_id)
    with UPLOADS.seat(package.organization_id), incoming(services.settings, package) as file:
        try:
            with anyio.fail_after(BODY_SECONDS):
                await _write(request, file)
        except (TimeoutError, ClientDisconnect) as error:
            raise HTTPException(408, headers={"Connection": "close"}) from error
        with PACKAGES.seat(package.organization_id):
            stored = await run_in_threadpool(receive, services.settings, services.database, package, file)
    return Uploaded(upload_id=stored.id, sha256=stored.digest or "", size_bytes=stored.size_bytes or 0)


async def _write(request: Request, file: Path) -> None:
    written = 0
    async with await anyio.open_file(file, "wb") as content:
        async for chunk in request.stream():
            written += len(chunk)
            if written > MAX_PACKAGE:
                raise TooLarge(f"A package has at most {MAX_PACKAGE} bytes.")
            await content.write(chunk)
