"""Pages of datasets: their list, rows with a filter and an order, differences between versions, and downloads."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlencode

from fastapi import Query, Request, Response
from fastapi.responses import HTMLResponse, StreamingResponse

from api.console.rendering import render
from api.console.routes import PAGE_LENGTH, ConsolePageOf, open_router
from api.console.rows import COMPARISONS, Selection, load_rows
from api.datasets import endpoints as datasets
from api.kit.auth import DatasetReader
from api.kit.schemas import DatasetId
from api.kit.services import ServicesOf
from core.data.datasets.repository import DatasetFilter
from core.errors import BadInput

router = open_router()
MOST_OFFSET = 10**9
LONGEST = 1000
Text = Annotated[str, Query(max_length=LONGEST)]


@router.get("/datasets")
def show_datasets(request: Request, caller: DatasetReader, services: ServicesOf, page: ConsolePageOf) -> HTMLResponse:
    with services.database.read() as session:
        listed = datasets.list_datasets(caller, services, session, page, DatasetFilter())
    return render(request, "datasets.html", datasets=listed, following=page.following)


@router.get("/datasets/{datasetId}")
def show_dataset(
    request: Request,
    response: Response,
    dataset_id: DatasetId,
    caller: DatasetReader,
    services: ServicesOf,
    page: ConsolePageOf,
    version: datasets.Version = None,
    offset: Annotated[int, Query(ge=0, le=MOST_OFFSET)] = 0,
    column: Text = "",
    comparison: Text = "",
    value: Text = "",
    sort: Text = "",
    descending: bool = False,
) -> HTMLResponse:
    with services.database.read() as session:
        dataset = datasets.read_dataset(dataset_id, caller, services, session, response)
        versions = datasets.list_dataset_versions(dataset_id, caller, services, session, page)
        lineage = datasets.read_dataset_lineage(dataset_id, caller, services, session, columns=True)
    selection = Selection(column, comparison, value, sort, descending)
    rows = load_rows(
        services, caller, dataset_id, version=version, limit=PAGE_LENGTH, offset=offset, selection=selection
    )
    chosen = {"version": version, "column": column, "comparison": comparison, "value": value, "sort": sort}
    chosen["descending"] = "true" if descending else None
    return render(
        request,
        "dataset.html",
        dataset=dataset,
        versions=versions,
        lineage=lineage,
        following=page.following,
        version=version,
        rows=rows,
        offset=offset,
        selection=selection,
        comparisons=COMPARISONS,
        chosen=urlencode({name: each for name, each in chosen.items() if each}),
    )


@router.get("/datasets/{datasetId}/differences")
def show_differences(
    request: Request,
    response: Response,
    dataset_id: DatasetId,
    caller: DatasetReader,
    services: ServicesOf,
    before: Text,
    after: Text,
    keys: Text = "",
) -> HTMLResponse:
    with services.database.read() as session:
        dataset = datasets.read_dataset(dataset_id, caller, services, session, response)
    differences, problem = None, None
    try:
        wanted = [keys] if keys else None
        differences = datasets.compare_dataset_versions(dataset_id, before, after, caller, services, wanted)
    except BadInput as error:  # such as keys that are missing: the form asks for them
        problem = error.sentence
    return render(
        request,
        "differences.html",
        dataset=dataset,
        before=before,
        after=after,
        keys=keys,
        differences=differences,
        problem=problem,
    )


@router.get("/datasets/{datasetId}/download")
def download_rows(
    request: Request,
    dataset_id: DatasetId,
    caller: DatasetReader,
    services: ServicesOf,
    format_: datasets.Format = "csv",
    version: datasets.Version = None,
) -> StreamingResponse:
    """Do the same as the operation: a link sends no header, by which that knows requests of the console."""
    return datasets.download_dataset(dataset_id, caller, services, request, format_, version)
