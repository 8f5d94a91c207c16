"""Every error leaves the service in one shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.routing import Match

from core.errors import Detail, SpindleError, TooMany
from core.infra.validation import cleaned

RETRY_AFTER_SECONDS = 5
MAX_DETAILS = 100  # of what is wrong in a long pipeline, nobody reads more
METHODS = ("GET", "POST", "PUT", "DELETE")


class ErrorDetail(BaseModel):
    """One part of what is wrong: a field of the request, or a place in the YAML."""

    path: str
    message: str


class Error(BaseModel):
    """The one error body."""

    error: str
    code: int
    timestamp: datetime
    details: list[ErrorDetail] | None = None


SENTENCES = {
    400: "The request cannot be read.",
    404: "There is nothing at this path.",
    405: "This path does not know this method.",
    408: "The body has not come within the time that this service waits for it.",
    413: "The request is larger than this service takes.",
    414: "The path is longer than this service takes.",
    500: "Something went wrong inside the service; it has been logged.",
}
MEANINGS = {
    400: "Bad input; `details` names the fields or lines.",
    401: "The API key is missing or not valid.",
    403: "The key lacks the operation's scope.",
    404: "Unknown, or another organization's.",
    409: "In conflict with what is there.",
    412: "The record is not as `If-Match` expects.",
    413: "The request or its answer is too large.",
    429: "Over a limit; `Retry-After` tells when to try again.",
    500: "A fault of the service.",
    503: "A part that the service depends on does not answer.",
}


def answers(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The error answers of an operation, for the OpenAPI file."""
    return {status: {"model": Error, "description": MEANINGS[status]} for status in statuses}


def error_response(
    status: int, sentence: str, details: Sequence[Detail] = (), headers: Mapping[str, str] | None = None
) -> JSONResponse:
    body: dict[str, Any] = {"error": sentence, "code": status, "timestamp": datetime.now(UTC).isoformat()}
    if details:
        body["details"] = [{"path": detail.path, "message": detail.message} for detail in details[:MAX_DETAILS]]
    return JSONResponse(cleaned(body), status, dict(headers or {}))  # what is wrong may be that it is no text


def install(app: FastAPI) -> None:
    """Has the application render all that goes wrong in the one shape."""
    app.add_exception_handler(SpindleError, _spindle_error)
    app.add_exception_handler(RequestValidationError, _validation_error)
    app.add_exception_handler(HTTPException, _http_exception)


async def _spindle_error(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, SpindleError)  # noqa: S101 - what install() registers it for
    headers: dict[str, str] = {}
    if error.retryable:
        headers["Retry-After"] = str(error.retry_after if isinstance(error, TooMany) else RETRY_AFTER_SECONDS)
    if error.status == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = "ApiKey"
    return error_response(error.status, error.sentence, error.details, headers)


async def _validation_error(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - what install() registers it for
    details = [_detail(problem) for problem in error.errors()]
    if any(problem["type"] == "json_invalid" for problem in error.errors()):
        return error_response(400, "The body is not valid JSON.", details)
    if error.body and isinstance(error.body, bytes):  # which is left unread unless its type is JSON's
        return error_response(
            400, "The body is not read as JSON. Send it with Content-Type: application/json.", details
        )
    paths = ", ".join(dict.fromkeys(detail.path for detail in details))
    return error_response(400, f"The request is not valid: {paths}.", details)


async def _http_exception(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)  # noqa: S101 - what install() registers it for
    sentence = SENTENCES.get(error.status_code) or HTTPStatus(error.status_code).phrase
    headers = dict(error.headers or {})
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        headers["Allow"] = ", ".join(_allowed(request))
    return error_response(error.status_code, sentence, headers=headers)


def _allowed(request: Request) -> list[str]:
    """The methods that the path knows; the framework names those of the first route alone."""
    scopes = [(method, {**request.scope, "method": method}) for method in METHODS]
    routes = request.app.router.routes
    return [method for method, scope in scopes if any(route.matches(scope)[0] is Match.FULL for route in routes)]


def _detail(problem: Mapping[str, Any]) -> Detail:
    """A pydantic problem as a path without its source (`body`, `query`) and a message."""
    source, *rest = [str(part) for part in problem["loc"]]
    if problem["type"] == "json_invalid":
        return Detail("body", f"{problem.get('ctx', {}).get('error', 'unreadable')} at character {'.'.join(rest)}")
    return Detail(".".join(rest) or source, str(problem["msg"]))
