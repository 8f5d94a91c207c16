"""Datasets and their files: create, change, delete, upload, download, versions, lineage, retention."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import AbstractContextManager
from typing import Annotated, Any, BinaryIO, Literal

import anyio
from fastapi import APIRouter, Depends, Path, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BeforeValidator
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from api.datasets.schemas import (
    DatasetDetails,
    DatasetLineage,
    DatasetRecord,
    UploadedDataset,
    VersionRecord,
    build_dataset_details,
    build_dataset_record,
    build_lineage_record,
    build_uploaded_record,
    build_version_record,
)
from api.kit.auth import DatasetReader, DatasetWriter, KeyRoute
from api.kit.concurrency import DATASET_UPLOADS, DOWNLOADS, QUERIES
from api.kit.errors import answers
from api.kit.idempotency import REPLAYED
from api.kit.multipart import Form, receive_form
from api.kit.pagination import PageOf
from api.kit.preconditions import TAGGED, IfMatch, set_etag
from api.kit.ranges import read_requested_part
from api.kit.schemas import DatasetId, Nothing, send_with_rows
from api.kit.services import ServicesOf
from api.kit.sessions import ReadSession, WriteSession
from api.kit.streams import BlockingStream, begin
from core.data.datasets.maintenance import MaintenanceRecord
from core.data.datasets.models import DatasetCreate, DatasetUpdate, MaintenanceRequest, Retention
from core.data.datasets.repository import DatasetFilter
from core.data.datasets.service import Download, UploadOptions
from core.data.sql.stored.service import VersionDiff
from core.errors import BadInput

UPLOAD = "/upload"
BODY_SECONDS = 3600
PARQUET = "application/vnd.apache.parquet"
MEDIA_TYPES = {"csv": "text/csv; charset=utf-8", "jsonl": "application/x-ndjson"}
FILE_ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {"content": {kind: {"schema": {"type": "string"}} for kind in ("text/csv", "application/x-ndjson", PARQUET)}},
    206: {
        "description": "The bytes of the `Range` that was asked for.",
        "content": {"application/octet-stream": {"schema": {"type": "string"}}},
    },
}
TRUTH = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
FORM = {
    "type": "object",
    "required": ["file"],
    "properties": {
        "file": {
            "type": "string",
            "format": "binary",
            "description": "CSV, JSON lines or Parquet; text may be compressed with gzip, or be the one file of a ZIP.",
        },
        "name": {"type": "string", "description": "Name of the dataset; that of the file when left out."},
        "datasetType": {"type": "string", "description": "INPUT or OUTPUT, in any case; INPUT when left out."},
        "type": {"type": "string", "description": "The same as `datasetType`."},
        "description": {"type": "string", "description": "Text for people."},
        "projectId": {"type": "string", "description": "Project whose schema gets the table; none when left out."},
        "datasetId": {"type": "string", "description": "Dataset that gets the rows as its next version."},
        "format": {"type": "string", "description": "csv, jsonl or parquet; detected when left out."},
        "delimiter": {"type": "string", "description": "Of CSV; detected when left out."},
        "header": {"type": "string", "description": "true or false: whether CSV begins with a header; else detected."},
        "encoding": {"type": "string", "description": "Of text, such as windows-1252; else UTF-8 or UTF-16."},
        "tableName": {"type": "string", "description": "Name of the table in SQL; from `name` when left out."},
        "allowTypeChanges": {
            "type": "string",
            "description": "true: columns may have other types than in the dataset's current version; else 409.",
        },
    },
}
FORM_EXAMPLE = {"file": "id,name,price\n1,kettle,19.50\n", "name": "goods", "datasetType": "INPUT"}
router = APIRouter(prefix="/datasets", tags=["datasets"], route_class=KeyRoute)


def _lower(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


Format = Annotated[
    Literal["csv", "jsonl", "parquet"],
    BeforeValidator(_lower),
    Query(alias="format", description="csv, jsonl or parquet."),
]
Version = Annotated[str | None, Query(description="Number or id of a version; the current one when left out.")]

VersionInPath = Annotated[str, Path(alias="version", description="Number or id of a version.")]


def parse_filter(
    dataset_type: Annotated[str | None, Query(alias="datasetType", description="INPUT, OUTPUT or TRIAL.")] = None,
    type_: Annotated[str | None, Query(alias="type", description="The same as `datasetType`.")] = None,
    format_: Annotated[str | None, Query(alias="format", description="Format of the files or of the upload.")] = None,
    storage_type: Annotated[str | None, Query(alias="storageType", description="LOCAL or S3.")] = None,
    indexed: Annotated[str | None, Query(description="true: SQL can query it; false: it cannot.")] = None,
    project_id: Annotated[str | None, Query(alias="projectId", description="Id of its project.")] = None,
    name: Annotated[str | None, Query(description="Its exact name.")] = None,
) -> DatasetFilter:
    """Return the filter of a list; values are accepted in any case."""
    if indexed is not None and indexed.lower() not in TRUTH:
        raise BadInput("'indexed' is true or false.", path="indexed")
    return DatasetFilter(
        dataset_type=dataset_type or type_ or None,
        format=format_ or None,
        storage_type=storage_type or None,
        indexed=TRUTH[indexed.lower()] if indexed else None,
        project_id=project_id or None,
        name=name or None,
    )


@router.post("", dependencies=[REPLAYED], summary="Create a dataset", responses={**TAGGED, **answers(409)})
def create_dataset(
    body: DatasetCreate, caller: DatasetWriter, services: ServicesOf, session: WriteSession, response: Response
) -> DatasetRecord:
    """Create a dataset without rows, which an upload with its `datasetId` or a save to its `storagePath` fills.

    Without a project it is in the schema `default`. The `storagePath` of a dataset answers that dataset.
    """
    return build_dataset_record(set_etag(response, services.datasets.create(session, caller, body)))


@router.post(
    UPLOAD,
    dependencies=[REPLAYED],
    summary="Upload a file as a dataset",
    response_model=UploadedDataset,
    responses=answers(404, 408, 409),
    openapi_extra={
        "requestBody": {"required": True, "content": {"multipart/form-data": {"schema": FORM, "example": FORM_EXAMPLE}}}
    },
)
async def upload_dataset(request: Request, caller: DatasetWriter, services: ServicesOf) -> Response:
    """Store the rows of a CSV, JSON lines or Parquet file as a new dataset, or as the next version of one.

    The file is read as it arrives and converted to Parquet. A file that cannot be read whole is refused with its line,
    and nothing is stored. The answer has the detected format and the first rows.
    """
    with DATASET_UPLOADS.acquire(caller.organization_id):
        scratch: AbstractContextManager[Any] = services.datasets.open_scratch()
        folder = await run_in_threadpool(scratch.__enter__)
        try:
            source = folder / "upload"
            with source.open("xb") as file:
                form = await _receive(request, file, services.settings.files.upload_bytes)
            options = _parse_options(form.fields, form.file_name or "")
            made, converted = await run_in_threadpool(
                services.datasets.upload, services.database, caller, source, options
            )
        finally:
            with anyio.CancelScope(shield=True):
                await run_in_threadpool(scratch.__exit__, None, None, None)
    return send_with_rows(build_uploaded_record(made.value, converted), "preview", converted.preview.encode())


async def _receive(request: Request, file: BinaryIO, max_bytes: int) -> Form:
    try:
        with anyio.fail_after(BODY_SECONDS):
            return await receive_form(request, file, "file", max_bytes)
    except TimeoutError as error:
        raise HTTPException(408, headers={"Connection": "close"}) from error


def _parse_options(fields: dict[str, str], file_name: str) -> UploadOptions:
    header, allow_type_changes = _parse_truth(fields, "header"), _parse_truth(fields, "allowTypeChanges")
    stem = file_name.removesuffix(".gz").removesuffix(".zip").rpartition(".")
    delimiter = fields.get("delimiter") or None
    return UploadOptions(
        name=fields.get("name") or stem[0] or stem[2] or "upload",
        dataset_type=fields.get("datasetType") or fields.get("type") or None,
        description=fields.get("description") or None,
        project_id=fields.get("projectId") or None,
        dataset_id=fields.get("datasetId") or None,
        format=fields.get("format", "").lower() or None,
        delimiter="\t" if delimiter in ("\\t", "tab") else delimiter,
        header=header,
        encoding=fields.get("encoding") or None,
        table_name=fields.get("tableName") or None,
        allow_type_changes=allow_type_changes or False,
    )


def _parse_truth(fields: dict[str, str], name: str) -> bool | None:
    value = fields.get(name, "").lower()
    if value and value not in TRUTH:
        raise BadInput(f"'{name}' is true or false.", path=name)
    return TRUTH[value] if value else None


@router.get("", summary="List the datasets")
def list_datasets(
    caller: DatasetReader,
    services: ServicesOf,
    session: ReadSession,
    page: PageOf,
    where: Annotated[DatasetFilter, Depends(parse_filter)],
) -> list[DatasetRecord]:
    """Return the organization's datasets that have all given values, oldest first. Values are accepted in any case.

    With `limit` the answer is a page, and the `Link` header has the next one.
    """
    found = services.datasets.list(session, caller, limit=page.limit, after=page.after, where=where)
    page.link([each.dataset.id for each in found])
    return [build_dataset_record(each) for each in found]


@router.get("/{datasetId}", summary="Read a dataset", responses={**TAGGED, **answers(404)})
def read_dataset(
    dataset_id: DatasetId, caller: DatasetReader, services: ServicesOf, session: ReadSession, response: Response
) -> DatasetDetails:
    """Return a dataset with the place, format, size and columns of its current version."""
    return build_dataset_details(set_etag(response, services.datasets.get(session, caller, dataset_id)))


@router.put(
    "/{datasetId}",
    summary="Change a dataset; what the body leaves out stays",
    responses={**TAGGED, **answers(404, 409, 412)},
)
def update_dataset(
    dataset_id: DatasetId,
    body: DatasetUpdate,
    caller: DatasetWriter,
    services: ServicesOf,
    session: WriteSession,
    if_match: IfMatch,
    response: Response,
) -> DatasetDetails:
    """Change name, description and type. The table's name in SQL stays."""
    changed = services.datasets.update(session, caller, dataset_id, body, if_match)
    return build_dataset_details(set_etag(response, changed))


@router.delete("/{datasetId}", summary="Delete a dataset", responses=answers(404, 409, 412))
def delete_dataset(
    dataset_id: DatasetId,
    caller: DatasetWriter,
    services: ServicesOf,
    session: WriteSession,
    if_match: IfMatch,
    files: Annotated[bool, Query(description="Whether its files are deleted too; else they are kept.")] = False,
) -> Nothing:
    """Delete a dataset with its history. A job that wrote it makes a new one at its next execution.

    Its files are deleted some time later, so that queries which read them end. The input of a job cannot be deleted.
    """
    services.datasets.delete(session, caller, dataset_id, files, if_match)
    return Nothing()


@router.get(
    "/{datasetId}/download",
    summary="Download the rows of a dataset",
    responses={**FILE_ANSWERS, **answers(404, 409, 416)},
    response_class=Response,
)
def download_dataset(
    dataset_id: DatasetId,
    caller: DatasetReader,
    services: ServicesOf,
    request: Request,
    format_: Format = "csv",
    version: Version = None,
) -> StreamingResponse:
    """Send all rows of a version as a file. It is produced while it is sent, so that its size is not known before.

    The one Parquet file of a version is sent as it is stored: its answer has a length and an `ETag`, and `Range` is
    accepted.
    """
    with DOWNLOADS.acquire(caller.organization_id):  # begins only within the limit; the stream itself holds a slot
        download = services.datasets.open_download(services.database, caller, dataset_id, format_, version)
    return send(request, download, format_, caller.organization_id)


def send(request: Request, download: Download, format: str, organization_id: str) -> StreamingResponse:
    """Return the answer that streams a file, or the requested part, and holds a slot for as long."""
    headers = {
        "Content-Disposition": f'attachment; filename="{download.name}"',
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "no-store",
    }
    content, status = download.content, 200
    if not isinstance(content, Generator):
        content, status, described = read_requested_part(request, content, download.tag)
        headers |= described

    def hold() -> Generator[bytes]:
        with DOWNLOADS.acquire(organization_id):
            yield from content

    media_type = MEDIA_TYPES.get(format, PARQUET)
    return BlockingStream(begin(hold()), status, media_type=media_type, headers=headers)


@router.get("/{datasetId}/versions", summary="List the versions of a dataset", responses=answers(404))
def list_dataset_versions(
    dataset_id: DatasetId, caller: DatasetReader, services: ServicesOf, session: ReadSession, page: PageOf
) -> list[VersionRecord]:
    """Return the dataset's versions, newest first, with their rows and bytes."""
    dataset, versions = services.datasets.list_versions(session, caller, dataset_id, page.limit, page.number)
    page.link([version.number for version in versions])
    return [build_version_record(dataset, version, services.datasets.locate(version)) for version in versions]


@router.post(
    "/{datasetId}/versions/{version}/restore",
    dependencies=[REPLAYED],
    summary="Make an earlier version current again",
    responses=answers(404, 409),
)
def restore_dataset_version(
    dataset_id: DatasetId, version: VersionInPath, caller: DatasetWriter, services: ServicesOf
) -> VersionRecord:
    """Add a version with the files, the snapshot and the columns of an earlier one, and make it the current one.

    It is 409 while an execution that writes the dataset has not ended. The next execution continues these rows: what
    later versions added is not in its version, and a job with `incremental` knows the pages of the restored version.
    The folder of a Delta or Iceberg table shows its old state until then.
    """
    dataset, restored = services.datasets.restore(services.database, caller, dataset_id, version)
    return build_version_record(dataset, restored, services.datasets.locate(restored))


@router.get(
    "/{datasetId}/versions/{version}/diff/{other}",
    summary="Compare two versions of a dataset",
    responses=answers(404, 408, 409),
)
def compare_dataset_versions(
    dataset_id: DatasetId,
    version: VersionInPath,
    other: Annotated[str, Path(description="Number or id of the version that it is compared with.")],
    caller: DatasetReader,
    services: ServicesOf,
    keys: Annotated[
        list[str] | None,
        Query(description="Columns that tell rows apart, with commas between them; those of the output if left out."),
    ] = None,
) -> VersionDiff:
    """Return the columns that differ between two versions, how many rows do, and a query for these rows.

    The rows are at `/datasets/queries/{queryId}/results`, ordered by the keys: `kind` (added, removed or changed), the
    keys, `changed` (the names of the columns whose values differ), `before` and `after` (the row in each version, or
    null). Null is equal to null, NaN to NaN, and a column that one version lacks counts as null there. The engine's own
    columns, such as `_url`, are not compared. Without keys of the output or in the query this is 400 `missing-keys`.
    """
    names = [name for text in keys or () for each in text.split(",") if (name := each.strip())]
    with QUERIES.acquire(caller.organization_id):
        return services.stored_queries.compare(caller, dataset_id, version, other, names)


@router.get("/{datasetId}/lineage", summary="Who writes and reads a dataset", responses=answers(404))
def read_dataset_lineage(
    dataset_id: DatasetId,
    caller: DatasetReader,
    services: ServicesOf,
    session: ReadSession,
    columns: Annotated[bool, Query(description="Whether the answer has what each column is made of.")] = False,
) -> DatasetLineage:
    """Return the jobs that wrote the dataset and those that read it, each with its newest execution that did.

    An upload is a writer without a job; a job that has the dataset as its input and never ran, a reader without an
    execution.
    """
    return build_lineage_record(services.datasets.load_lineage(session, caller, dataset_id), columns)


@router.put(
    "/{datasetId}/retention",
    summary="Set which versions of a dataset are kept",
    responses={**TAGGED, **answers(404)},
)
def set_dataset_retention(
    dataset_id: DatasetId,
    body: Retention,
    caller: DatasetWriter,
    services: ServicesOf,
    session: WriteSession,
    response: Response,
) -> DatasetRecord:
    """Keep the newest `versions`, and those of the last `days`; a version must satisfy both, and null keeps all.

    The current version is always kept. Versions that are removed disappear at once, their files some time later, so
    that queries, downloads and executions which read them end. A `maintenance` does what `POST …/maintain` does,
    `every` so often.
    """
    changed = services.datasets.set_retention(session, caller, dataset_id, body)
    return build_dataset_record(set_etag(response, changed))


@router.post(
    "/{datasetId}/maintain",
    dependencies=[REPLAYED],
    summary="Merge small files of a table, and remove those that no version needs",
    responses=answers(404, 409),
)
def maintain_dataset(
    dataset_id: DatasetId, body: MaintenanceRequest, caller: DatasetWriter, services: ServicesOf
) -> MaintenanceRecord:
    """Merge the small files of a Delta or Iceberg table, and remove those that no version needs.

    The current version gets the merged files, with the same rows in the same order, unless another program has changed
    the table since; earlier versions keep theirs. Files that were replaced more than `days` ago are removed unless a
    version, an unfinished execution or the newest state of the table has them; in Iceberg their snapshots expire. Files
    of other formats are removed with their versions, so that nothing is left to do. It is 409
    `unsupported-maintenance` for Iceberg tables of other programs' catalogs, and 409 while an execution that writes the
    dataset has not ended.
    """
    return services.datasets.maintain(services.database, caller, dataset_id, body)
