"""The one error body of the service, and the exception handlers that render it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from fastapi.routing import iter_route_contexts
from pydantic import BaseModel, ConfigDict
from starlette.exceptions import HTTPException

from api.kit.auth import count_unidentified
from api.kit.key_page import render_key_page, wants_page
from core.errors import CODES, Detail, SpindleError, TooMany
from core.infra.files import DISK_FAULTS, describe_disk_fault
from core.infra.validation import format_time, replace_unstorable
from pipelines.errors import PROBLEM_CODES
from spindle.rest import RestError

log = structlog.get_logger()

RETRY_AFTER_SECONDS = 5
MAX_DETAILS = 100  # of the problems of a long pipeline
METHODS = ("GET", "POST", "PUT", "DELETE")


class ErrorDetail(BaseModel):
    """One part of an error: a field of the request, or a position in the YAML. `code` is stable, `message` is not."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    path: str
    """Field of the request, or position in the YAML."""
    message: str
    """What is wrong there, as a sentence; its wording may change."""
    code: str
    """Stable name of the problem."""


class Error(BaseModel):
    """The body of every error. `code` is the HTTP status; `details` has at least one entry."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    error: str
    """What is wrong and what to do, as a sentence."""
    code: int
    """The HTTP status."""
    timestamp: datetime
    """When the error was answered."""
    details: list[ErrorDetail]
    """The single problems, at least one."""


HTTP_ERRORS = {  # errors found before a route runs: sentence, code
    400: ("The request cannot be read.", "unreadable-request"),
    404: ("No operation has this path.", "unknown-path"),
    405: ("This path does not support this method.", "method-not-allowed"),
    408: ("The body did not arrive in time.", "request-timeout"),
    413: ("The request exceeds the size limit.", "too-large"),
    414: ("The path exceeds the length limit.", "path-too-long"),
    500: ("An internal error occurred and has been logged.", "internal-error"),
}
MEANINGS = {
    400: "Bad input; `details` names the fields or lines.",
    401: "The API key is missing or not valid.",
    403: "The key lacks the operation's scope.",
    404: "Unknown, or another organization's.",
    408: "The body did not arrive in time, or the query took longer than it may.",
    409: "In conflict with the current state.",
    412: "The record has changed since the version in `If-Match`.",
    413: "The request or its answer is too large.",
    416: "The range of bytes is not within the file.",
    429: "Over a limit; retry after `Retry-After` seconds.",
    500: "A fault of the service.",
    503: "A part that the service depends on does not answer.",
}
CODES_BY_PYDANTIC_TYPE = {
    "missing": "missing-field",
    "json_invalid": "invalid-json",
    "extra_forbidden": "unknown-field",
}


def answers(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the error answers of an operation, for the OpenAPI file."""
    return {status: {"model": Error, "description": MEANINGS[status]} for status in statuses}


def describe_codes() -> str:
    """Return the list of codes, those of pipelines included, as Markdown for the OpenAPI file."""
    return "\n".join(f"- `{code}`: {meaning}" for code, meaning in sorted((PROBLEM_CODES | CODES).items()))


def error_response(
    status: int, sentence: str, details: Sequence[Detail], headers: Mapping[str, str] | None = None
) -> JSONResponse:
    entries = [{"path": each.path, "message": each.message, "code": each.code} for each in details[:MAX_DETAILS]]
    body = {"error": sentence, "code": status, "timestamp": format_time(datetime.now(UTC)), "details": entries}
    return JSONResponse(
        replace_unstorable(body), status, dict(headers or {})
    )  # sentences may quote unpaired surrogates


def http_error_response(status: int, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """Return the answer to a request that no route has handled."""
    sentence, code = HTTP_ERRORS.get(status) or (f"{HTTPStatus(status).phrase}.", "unreadable-request")
    return error_response(status, sentence, [Detail("", sentence, code)], headers)


def install(app: FastAPI) -> None:
    """Register the handlers for all exceptions that a request may raise."""
    app.add_exception_handler(SpindleError, _handle_spindle_error)
    app.add_exception_handler(RestError, _handle_rest_error)
    app.add_exception_handler(OSError, _handle_disk_fault)
    app.add_exception_handler(RequestValidationError, _handle_validation_error)
    app.add_exception_handler(HTTPException, _handle_http_exception)


async def _handle_spindle_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, SpindleError)  # noqa: S101 - see install()
    if error.status == HTTPStatus.UNAUTHORIZED and wants_page(request):
        return render_key_page(request, error.sentence, f"{request.app.state.services.settings.api.root_path}/docs")
    headers: dict[str, str] = {}
    if error.retryable:
        headers["Retry-After"] = str(error.retry_after if isinstance(error, TooMany) else RETRY_AFTER_SECONDS)
    if error.status == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = "ApiKey"
    return error_response(error.status, error.sentence, error.details, headers)


async def _handle_rest_error(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RestError)  # noqa: S101 - see install()
    return error_response(error.status, error.sentence, [Detail(error.path, error.sentence, error.code)])


async def _handle_disk_fault(request: Request, error: Exception) -> Response:
    """Answer writes that a full or broken disk refuses; other errors of the system are faults of ours."""
    assert isinstance(error, OSError)  # noqa: S101 - see install()
    if error.errno not in DISK_FAULTS:
        raise error
    log.error("the disk takes no files", path=request.url.path, reason=str(error))
    return await _handle_spindle_error(request, describe_disk_fault(error, "service"))


async def _handle_validation_error(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - see install()
    details = [_detail_of(problem) for problem in error.errors()]
    if any(detail.code == "invalid-json" for detail in details):
        sentence = "The body is not valid JSON."
    elif error.body and isinstance(error.body, bytes):  # not decoded: the content type is not JSON's
        sentence = "The body is not read as JSON. Send it with Content-Type: application/json."
        details = [Detail("body", sentence, "invalid-content-type")]
    else:
        paths = ", ".join(dict.fromkeys(detail.path for detail in details))
        sentence = f"The request is not valid: {paths}."
    return error_response(400, sentence, details)


async def _handle_http_exception(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - see install()
    headers = dict(error.headers or {})
    try:
        await count_unidentified(request)
    except TooMany as over_limit:
        return await _handle_spindle_error(request, over_limit)
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        headers["Allow"] = ", ".join(_allowed_methods(request))
    return http_error_response(error.status_code, headers)


def _allowed_methods(request: Request) -> list[str]:
    """Return the methods of the routes with this path, of those with the fewest parameters: `/agents/try` is no id.

    Starlette names the methods of the first route only.
    """
    found: dict[str, int] = {}
    for route in iter_route_contexts(request.app.router.routes):
        if route.methods and route.path_regex.match(request.scope["path"]):
            count = (route.path_format or "").count("{")
            found |= {method: min(found.get(method, count), count) for method in route.methods}
    methods = [method for method in METHODS if method in found and found[method] == min(found.values())]
    if "GET" in methods and request.method != "HEAD":  # a HEAD that no GET answered has a GET that acts
        methods.insert(1, "HEAD")
    return methods


def _detail_of(problem: Mapping[str, Any]) -> Detail:
    """Convert a pydantic problem; the path loses its first part (`body`, `query`)."""
    source, *rest = [str(part) for part in problem["loc"]]
    code = CODES_BY_PYDANTIC_TYPE.get(problem["type"], "invalid-value")
    if code == "invalid-json":
        reason = problem.get("ctx", {}).get("error", "unreadable")
        return Detail("body", f"{reason} at character {'.'.join(rest)}", code)
    return Detail(".".join(rest) or source, str(problem["msg"]), code)
