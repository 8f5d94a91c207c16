"""Operations of installed plugins, served under the plugins' names with the service's keys, scopes and limits."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any

import structlog
from anyio import from_thread
from fastapi import APIRouter, Depends, FastAPI, Request, Security
from fastapi.responses import HTMLResponse, Response
from fastapi.routing import APIRoute, iter_route_contexts
from httpx import ASGITransport, AsyncClient
from httpx import Response as ServiceAnswer

from api.kit.auth import KeyRoute, check_scopes
from api.kit.errors import answers
from api.kit.idempotency import REPLAYED
from api.kit.services import get_services
from core.definitions.identity.api_keys import Identity
from core.errors import Unavailable
from core.infra.settings import Settings
from pipelines.plugin import InstalledPlugin, PluginFailure, describe_error, load_object
from pipelines.registry import load_plugins
from spindle.rest import Caller, OpenPage, Route, Router

EVERYWHERE = answers(400, 401, 403, 404, 409, 429, 500, 503)
_INLINE = re.compile(r"<(script|style)>(.*?)</\1>", re.DOTALL)
_PAGE_HEADERS = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-cache"}
FORWARDED = ("authorization", "x-api-key", "x-encryption-key")

log = structlog.get_logger()


@dataclass(slots=True)
class ServedPlugins:
    """Plugins with operations: a description of each, and patterns of the paths of their uploads."""

    descriptions: dict[str, str] = field(default_factory=dict[str, str])
    uploads: list[str] = field(default_factory=list[str])


def include_plugins(app: FastAPI, service: str) -> ServedPlugins:
    """Add the operations of all plugins to the application.

    A plugin whose settings or operations cannot be loaded is recorded as a failure, and serves no operation.
    """
    served = ServedPlugins()
    plugins = load_plugins()
    for failure in plugins.failures:
        log.error("plugin left out", plugin=failure.plugin, reason=failure.error)
    for each in plugins.loaded:
        try:
            router = _build_router(app, each, service, served.uploads)
        except (Exception, SystemExit) as error:  # a plugin may raise anything
            failure = PluginFailure(each.name, describe_error(error))
            plugins.failures.append(failure)
            log.error("plugin serves no operations", plugin=each.name, reason=failure.error)
            continue
        if router is not None:
            app.include_router(router, prefix=f"{service}/{each.name}", responses=EVERYWHERE)
            served.descriptions[each.name] = each.plugin.description or f"Operations of the plugin {each.name}."
    return served


def migrate_plugins(settings: Settings) -> None:
    """Bring the tables of all plugins up to date; the operations of one whose revisions fail answer 503."""
    plugins = load_plugins()
    for each in plugins.loaded:
        if each.plugin.migrations is None:
            continue
        from core.infra.migrations import migrate_plugin  # imports Alembic, which few services need

        try:
            folder = next(iter(import_module(each.plugin.migrations).__path__))
            migrate_plugin(settings, each.name, Path(folder))
        except (Exception, SystemExit) as error:  # a plugin may raise anything
            plugins.failures.append(PluginFailure(each.name, describe_error(error)))
            log.error("the tables of a plugin are not up to date", plugin=each.name, reason=describe_error(error))


def _build_router(app: FastAPI, installed: InstalledPlugin, service: str, uploads: list[str]) -> APIRouter | None:
    """Return the plugin's operations as routes of the service, and add the patterns of its uploads.

    Raises ValueError for operations that cannot be served.
    """
    plugin = installed.plugin
    settings = load_object(plugin.settings)() if plugin.settings else None
    if plugin.router is None:
        return None
    declared = load_object(plugin.router)
    if not isinstance(declared, Router):
        raise ValueError(f"{plugin.router} is no spindle.rest.Router")
    prefix = f"{service}/{installed.name}"
    if any(f"{path}/".startswith(f"{prefix}/") for path in _list_paths(app)):
        raise ValueError(f"{prefix} is a path of the service: the plugin needs another name")
    router = APIRouter(
        route_class=KeyRoute,
        tags=[installed.name],
        dependencies=[Depends(_make_caller(installed.name, service, settings))],
    )
    for route in declared.routes:
        router.add_api_route(
            route.path,
            route.endpoint,
            methods=[route.method],
            dependencies=[Security(check_scopes, scopes=[route.scope]), *([REPLAYED] if _makes_records(route) else [])],
            **route.options,
        )
    paths = (route.path for route in declared.routes if route.upload)
    uploads += [re.sub(r"\\{\w+\\}", "[^/]+", re.escape(f"{prefix}{path}")) for path in paths]
    for page in declared.pages:
        router.add_route(page.path, _make_page_handler(page), include_in_schema=False)
    return router


def _makes_records(route: Route) -> bool:
    """Return whether an operation takes an Idempotency-Key: repeating one that only reads is harmless."""
    return route.method == "POST" and not route.scope.endswith(":read")


def _make_page_handler(page: OpenPage) -> Callable[[Request], Awaitable[Response]]:
    """Return the handler of a page without a key; its policy allows the scripts and styles in its own text alone."""
    allowed: dict[str, str] = {"script": "", "style": ""}
    for kind, text in _INLINE.findall(page.html):
        allowed[kind] += f" 'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
    policy = "default-src 'none'; img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    policy += "frame-ancestors 'none'" + "".join(f"; {kind}-src{hashes}" for kind, hashes in allowed.items() if hashes)
    headers = {"Content-Security-Policy": policy, **_PAGE_HEADERS}

    async def send_page(_: Request) -> Response:
        return HTMLResponse(page.html, headers=headers)

    return send_page


def _list_paths(app: FastAPI) -> list[str]:
    routes = iter_route_contexts(app.routes)
    return [route.path_format or "" for route in routes if isinstance(route.original_route, APIRoute)]


def _make_caller(name: str, service: str, settings: Any) -> Callable[[Request], Any]:
    """Return the dependency that gives the operations of a plugin their caller."""

    async def set_caller(request: Request) -> None:
        for failure in load_plugins().failures:
            if failure.plugin == name:
                raise Unavailable(f"The plugin {name} does not work: the log has the reason.", code="plugin-failed")
        identity: Identity = request.state.identity
        services = get_services(request)
        database, organization = services.database, identity.organization_id

        def call(method: str, path: str, **options: Any) -> ServiceAnswer:
            return from_thread.run(_call_service, request, method, f"{service}/{path.lstrip('/')}", options)

        def read_file(digest: str) -> bytes | None:
            return services.executions.read_shared_file(organization, digest)

        request.state.plugin_caller = Caller(organization, database.read, database.write, call, read_file, settings)

    return set_caller


async def _call_service(request: Request, method: str, path: str, options: dict[str, Any]) -> ServiceAnswer:
    """Send a request to this application in this process, with the headers that identify the caller."""
    own = {name: value for name, value in request.headers.items() if name in FORWARDED}
    headers = {**own, **options.pop("headers", {})}
    transport = ASGITransport(request.app, raise_app_exceptions=False)
    async with AsyncClient(transport=transport, base_url=str(request.base_url), headers=headers) as client:
        return await client.request(method, path, **options)
