"""The cookie of a session of the console: set at sign-in, removed at sign-out, and the check of forms' origins."""

from __future__ import annotations

from contextlib import suppress
from http import HTTPStatus
from urllib.parse import urlsplit

from fastapi import Request
from fastapi.responses import RedirectResponse, Response
from starlette.requests import HTTPConnection

from api.kit.auth import SESSION_COOKIE, extract_session
from api.kit.services import Services
from core.definitions.identity.api_keys import Identity
from core.definitions.identity.audit import record_action
from core.definitions.identity.console_sessions import end_session
from core.errors import Forbidden, Unauthorized

HOME = "/console"
FOREIGN = "This form was sent from another site. Open the console and try again."


def open_session(request: Request, services: Services, caller: Identity, token: str, target: str) -> Response:
    """Lead the browser, with its new session, to the page of its request; its former session ends."""
    target = target if target == HOME or target.startswith((f"{HOME}/", f"{HOME}?")) else HOME
    response = RedirectResponse(target, HTTPStatus.SEE_OTHER, {"Cache-Control": "no-store"})
    close_session(request, services)
    set_cookie(request, services, response, SESSION_COOKIE, token)
    record_action(services.database, caller, "sign_in", {}, response.status_code)
    return response


def close_session(request: Request, services: Services) -> str | None:
    """End the browser's session, if it has one; return the ID token with which a person began it."""
    token = extract_session(request.headers)
    if token is None:
        return None
    with suppress(Unauthorized):  # of a session that has ended
        record_action(services.database, services.keys.authenticate(token), "sign_out", {}, HTTPStatus.SEE_OTHER)
    id_token = end_session(services.database, token)
    services.keys.remove_session(token)
    return id_token


def set_cookie(
    request: Request, services: Services, response: Response, name: str, value: str, max_age: int | None = None
) -> None:
    """Set a cookie that scripts and other sites' requests do not get, only over HTTPS where that is used."""
    secure = "https" in (request.url.scheme, urlsplit(services.settings.api.public_url or "").scheme)
    response.set_cookie(name, value, max_age, httponly=True, samesite="lax", secure=secure)


def get_origin(request: Request, services: Services) -> str:
    """Return scheme and host by which the browser reaches the service."""
    public = urlsplit(services.settings.api.public_url or "")
    scheme = public.scheme if public.netloc == request.url.netloc else request.url.scheme
    return f"{scheme}://{request.url.netloc}"


def check_origin(connection: HTTPConnection, services: Services) -> None:
    """Raise Forbidden for requests of another site; browsers name the origin of posts and of WebSockets."""
    origin = urlsplit(connection.headers.get("origin", ""))
    public = urlsplit(services.settings.api.public_url or "")
    if not origin.netloc or origin.netloc not in (connection.headers.get("host"), public.netloc):
        raise Forbidden(FOREIGN)
