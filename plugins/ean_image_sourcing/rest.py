"""Operations on the images of a country's products."""

from __future__ import annotations

import tempfile
from importlib.metadata import version
from importlib.resources import files
from typing import Annotated, Any

from fastapi import Body, File, Header, UploadFile

from plugins.ean_image_sourcing.countries import (
    CountryName,
    Json,
    call_service,
    choose_pipeline,
    find_country,
    find_missing_browser,
    get_country,
    list_countries,
    set_up_country,
)
from plugins.ean_image_sourcing.ean_files import convert_eans
from plugins.ean_image_sourcing.queries import ImageRequest, QueryRequest, find_images, query_rows
from spindle.rest import CallerOf, RestError, Router

router = Router()
router.add_page("/{country}/gallery", files("plugins.ean_image_sourcing").joinpath("gallery.html").read_text("utf-8"))
_EXECUTE_FIELDS = ("cloudCredentialIds", "cloudCredentialId", "parameters", "arguments", "limit")
_STATUS_FIELDS = (
    *("executionId", "status", "completedAt", "executionTimeSeconds", "errorMessage", "sparkUiUrl", "executorPodCount"),
)


@router.add("POST", "/{country}/upload", scope="datasets:write", upload=True, summary="Upload the EANs of a country")
def upload_eans(
    country: CountryName,
    file: Annotated[UploadFile, File(description="CSV file with a column of EANs.")],
    caller: CallerOf,
) -> Json:
    """Store the rows of a CSV file in any dialect that have a valid EAN; it replaces the country's earlier file.

    `invalidRows` has the first 100 rows without one, with line and value, and `invalidCount` is their number: they are
    left out. A file without a column of EANs, or without a valid one, is 400.
    """
    with tempfile.TemporaryFile() as converted:
        checked = convert_eans(file.file, converted)
        converted.seek(0)
        place = set_up_country(caller, country)
        owner = {"name": f"EANs of {country}", "projectId": place.project_id}
        if place.job["inputDatasetId"]:
            owner = {"datasetId": place.job["inputDatasetId"]}
        sent = {"file": ("eans.parquet", converted)}
        stored = call_service(caller, "POST", "datasets/upload", data={**owner, "format": "parquet"}, files=sent)
    call_service(caller, "PUT", place.path, json={"inputDatasetId": stored["id"]})
    return {
        "country": country,
        "datasetId": stored["id"],
        "storagePath": stored["storagePath"],
        "rowCount": checked.rows,
        "columns": checked.columns,
        "invalidCount": checked.invalid,
        "invalidRows": checked.shown,
    }


@router.add("POST", "/{country}/execute", scope="etl:execute", summary="Find the images of a country's EANs")
def execute_country(
    country: CountryName,
    caller: CallerOf,
    body: Annotated[Json, Body(examples=[{"limit": 100, "cloudCredentialIds": []}])],
) -> Json:
    """Execute the country's job, and return the submission with `projectId` and `jobId`, by which it is followed.

    `cloudCredentialIds` or `cloudCredentialId` name the credentials; without them each provider's enabled one of the
    organization counts, then a global one. `datasetId` makes another dataset the country's EANs; `parameters`,
    `arguments` and `limit` are those of any execution. A country without EANs is 404.
    """
    place = set_up_country(caller, country)
    choose_pipeline(caller, place)
    if dataset := body.get("datasetId"):
        call_service(caller, "PUT", place.path, json={"inputDatasetId": dataset})
    elif not place.job["inputDatasetId"]:
        raise RestError(404, f"There are no EANs for '{country}' yet: upload a CSV file first.", "not-found")
    request = {name: body[name] for name in _EXECUTE_FIELDS if name in body}
    submitted = call_service(caller, "POST", f"{place.path}/execute", json=request)
    return {**submitted, "projectId": place.project_id, "jobId": place.job["id"]}


@router.add("POST", "/{country}/schedule", scope="etl:write", summary="Set when the images of a country are found")
def schedule_country(
    country: CountryName,
    caller: CallerOf,
    body: Annotated[Json, Body(examples=[{"cronSchedule": "0 3 * * *", "timezone": "Europe/Berlin"}])],
    x_encryption_key: Annotated[
        str | None, Header(alias="X-Encryption-Key", description="Refused: a tick has no header.")
    ] = None,
) -> Json:
    """Store a schedule (`cronSchedule` or `schedule`, `timezone`, `enabled`), and return it with its next ticks."""
    if x_encryption_key is not None:
        sentence = "A schedule cannot use X-Encryption-Key, since its ticks have no header: leave it out."
        raise RestError(400, sentence, "invalid-value", "X-Encryption-Key")
    place = set_up_country(caller, country)
    choose_pipeline(caller, place)
    request = {**body, "jobId": place.job["id"]}
    return call_service(caller, "PUT", f"projects/id/{place.project_id}/schedule", json=request)


@router.add("POST", "/{country}/query", scope="datasets:read", summary="Query the latest images of a country")
def query_country(country: CountryName, body: QueryRequest, caller: CallerOf) -> Json:
    """Return rows of the latest dataset: those that pass all `filters` and `conditions`, or those of `sql`.

    In `sql` the dataset is `output`.
    """
    return query_rows(caller, get_country(caller, country), body)


@router.add("POST", "/{country}/images", scope="datasets:read", summary="List the images of EANs, the best first")
def list_images(country: CountryName, body: ImageRequest, caller: CallerOf) -> Json:
    """Return the usable images of the EANs in the latest dataset, by descending score."""
    return {"results": find_images(caller, get_country(caller, country), body)}


# before the status of a country, whose path matches this one too
@router.add("GET", "/bootstrap/status", scope="etl:read", summary="Countries that are set up")
def read_bootstrap(caller: CallerOf) -> Json:
    """Return the records of each country, which its first upload, execution or schedule makes.

    `browser` says whether the plugin's pipeline opens the pages of results in a browser (`visit`). Where none can be
    started, `problem` says why, and it fetches them over HTTP (`wget`), so that it is ready all the same.
    """
    countries: list[dict[str, Any]] = [
        {
            "country": each.name,
            "projectId": each.project_id,
            "jobId": each.job["id"],
            "agentId": each.job["agentId"],
            "ready": each.job["agentId"] is not None,
        }
        for each in list_countries(caller)
    ]
    unready = [each["country"] for each in countries if not each["ready"]]
    missing = find_missing_browser(caller)
    problems = [f"The jobs of {', '.join(unready)} have no agent."] if unready else []
    problems += [f"{missing} Until then the pages of results are fetched over HTTP, with wget."] if missing else []
    return {
        "ready": not unready,
        "browser": missing is None,
        "countries": countries,
        "problem": " ".join(problems) or None,
    }


@router.add("GET", "/{country}/status", scope="etl:read", summary="Status of a country's latest execution")
def read_status(country: CountryName, caller: CallerOf) -> Json:
    """Return the country's job with its latest execution and its schedule; `hasJobs` is false without a job."""
    place = find_country(caller, country)
    nothing = dict.fromkeys(("latestJobStatus", "latestJobId", "projectId", "latestExecution", "schedule"))
    if place is None:
        return {"country": country, "hasJobs": False, **nothing}
    executions = call_service(caller, "GET", f"{place.path}/executions", params={"limit": 1})
    latest = {name: executions[0][name] for name in _STATUS_FIELDS} if executions else None
    if latest:
        latest["submittedAt"] = executions[0]["createdAt"]
    return {
        "country": country,
        "hasJobs": True,
        "latestJobStatus": latest["status"] if latest else None,
        "latestJobId": place.job["id"],
        "projectId": place.project_id,
        "latestExecution": latest,
        "schedule": call_service(caller, "GET", f"projects/id/{place.project_id}/schedule"),
    }


@router.add("GET", "/info", scope="etl:read", summary="Facts about the plugin")
def read_info(caller: CallerOf) -> Json:
    """Return the plugin's version, its countries in the organization, its configuration and its features."""
    return {
        "name": "ean-image-sourcing",
        "version": version("spindle"),
        "countries": [each.name for each in list_countries(caller)],
        "configuration": {"resultsPerEan": 10, "comparison": "perceptual hash"},
        "features": ["upload", "execute", "schedule", "query", "images", "status", "gallery"],
    }
