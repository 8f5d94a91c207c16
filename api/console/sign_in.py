"""Signing in with a key and out again, the page `/`, and the console's own files."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, FastAPI, Form, Request
from fastapi.responses import JSONResponse, RedirectResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.routing import Match
from starlette.types import Scope

from api.console import (
    administration,
    agents,
    credentials,
    dagster,
    datasets,
    notifications,
    pages,
    provider,
    schedules,
)
from api.console.rendering import render
from api.console.routes import open_router
from api.console.sessions import HOME, check_origin, close_session, open_session
from api.console.texts import TEXT
from api.kit.auth import SESSION_COOKIE, Reader
from api.kit.services import ServicesOf
from core.definitions.identity.console_sessions import begin_session, is_session
from core.errors import NotFound, Unauthorized
from core.infra.settings.sign_in import LOOPBACK
from core.infra.version import API_VERSION, get_version

router = APIRouter(include_in_schema=False)
root = APIRouter(include_in_schema=False)
unknown = open_router()


class _Files(StaticFiles):
    """The console's scripts and styles, which browsers revalidate, so that an upgrade shows no mixture."""

    def file_response(self, *args: Any, **options: Any) -> Response:
        response = super().file_response(*args, **options)
        response.headers["Cache-Control"] = "no-cache"
        return response


class _Console(APIRouter):
    """All that is below `/console`. Other paths are refused by their beginning: REST does not pay for these routes."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        return super().matches(scope) if scope["path"].startswith(HOME) else (Match.NONE, {})


def install(app: FastAPI) -> None:
    """Add `/`, which leads people to the console, and its pages; the files come first, most requests are of them."""
    console = _Console()
    console.mount(f"{dagster.PREFIX}/_next", dagster.Scripts())
    console.mount(f"{HOME}/static", _Files(packages=[("api.console", "static")]))
    console.include_router(dagster.router)
    console.include_router(dagster.pages)
    for each in (provider, administration, pages, agents, datasets, schedules, credentials, notifications):
        console.include_router(each.router)
    console.include_router(router)
    console.include_router(unknown)
    app.include_router(console)
    app.include_router(root)


@root.get("/")
def show_root(request: Request, services: ServicesOf) -> Response:
    """Lead people to the console, and give clients the addresses of this server. It needs no key."""
    if "text/html" in request.headers.get("accept", ""):
        return RedirectResponse(HOME, HTTPStatus.SEE_OTHER, {"Vary": "Accept"})
    settings = services.settings
    root = settings.api.root_path
    described = {
        "name": "Spindle",
        "version": get_version(),
        "apiVersion": API_VERSION,
        "api": f"{root}/{settings.api.service_segment}/api",
        "docs": f"{root}/docs",
        "openapi": f"{root}/openapi.json",
        "health": f"{root}/health",
        "console": HOME,
    }
    if settings.api.host in LOOPBACK:
        described["dagster"] = f"http://127.0.0.1:{settings.dagster.ui_port}"
    return JSONResponse(described, headers={"Vary": "Accept"})


@router.post(f"{HOME}/sign-in")
def sign_in(
    request: Request,
    services: ServicesOf,
    key: Annotated[str, Form(max_length=1000)] = "",
    target: Annotated[str, Form(max_length=8000)] = HOME,
) -> Response:
    """Begin a session of the key, and continue to the page that required it."""
    check_origin(request, services)
    try:
        if is_session(key := key.strip()):
            raise Unauthorized("This is no API key.")
        identity = services.keys.authenticate(key)
    except Unauthorized:
        return render(request, "sign_in.html", HTTPStatus.UNAUTHORIZED, target=target, problem=TEXT.sign_in.unknown_key)
    with services.database.write() as session:
        token = begin_session(session, key_id=identity.key_id)
    return open_session(request, services, identity, token, target)


@router.post(f"{HOME}/sign-out")
def sign_out(request: Request, services: ServicesOf) -> Response:
    """End the session here, and lead a person who came by the provider there, to end the session there too."""
    check_origin(request, services)
    id_token = close_session(request, services)
    response: Response = RedirectResponse(HOME, HTTPStatus.SEE_OTHER)
    if id_token is not None and services.provider is not None:
        response = provider.render_sign_out(request, services, services.provider, id_token)
    response.delete_cookie(SESSION_COOKIE)
    return response


@unknown.get("/{path:path}")
def show_unknown(_caller: Reader) -> Response:
    raise NotFound("The console has no page at this address.", code="unknown-path")
