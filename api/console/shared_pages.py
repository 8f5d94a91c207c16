"""Live parts of a page that many people watch: they are rendered once for each change, and shared.

A browser asks for the parts with the number of the last event that it has seen, 0 on a page without events. They may be
as old as `FRESH_SECONDS`, but no older than the event. They are shared by callers of one organization with equal
scopes; a page that shows more of its caller, such as a name, has that outside of its live parts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from dataclasses import dataclass
from typing import Any

from fastapi import Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers

from api.console.routes import MARK, ConsoleRoute
from api.kit.auth import identify_caller
from api.kit.services import get_services
from core.definitions.identity.api_keys import Identity
from core.errors import SpindleError
from core.lifecycle.events.service import get_last_id, get_last_id_of_execution

EVENT_HEADER = "X-Spindle-Event"
FRESH_SECONDS = 2.0
MAX_DIGITS = 18
Handle = Callable[[Request], Coroutine[Any, Any, Response]]


@dataclass(frozen=True, slots=True)
class _Rendering:
    """An answer being made, with the number of the last event that it shows."""

    task: asyncio.Task[tuple[int, Response]]
    at: float


class LiveRoute(ConsoleRoute):
    """A page whose live parts are shared: of an execution, of its job and project, or of the whole organization."""

    def get_route_handler(self) -> Handle:
        handle = super().get_route_handler()
        renderings: dict[Hashable, _Rendering] = {}

        async def handle_live(request: Request) -> Response:
            seen = Headers(scope=request.scope).get(EVENT_HEADER, "")  # the request would keep them without the mark
            if not (seen.isascii() and seen.isdecimal() and len(seen) <= MAX_DIGITS):
                return await handle(request)
            request.scope["headers"] = [*request.scope["headers"], MARK]
            try:
                caller = await identify_caller(request)
            except SpindleError:  # the page tells it
                return await handle(request)
            return await share(request, caller, int(seen))

        async def share(request: Request, caller: Identity, seen: int) -> Response:
            loop = asyncio.get_running_loop()
            parts = (request.url.path, request.url.query)
            key = (id(loop), caller.organization_id, caller.scopes, *parts)
            while (found := renderings.get(key)) is not None and loop.time() - found.at < FRESH_SECONDS:
                shown, response = await asyncio.shield(found.task)
                if shown >= seen and response.status_code == 200:
                    return Response(response.body, headers=dict(response.headers))
                if renderings.get(key) is found:
                    break
            made = _Rendering(asyncio.create_task(render(request, caller)), loop.time())
            renderings[key] = made
            loop.call_later(FRESH_SECONDS, forget, key, made)
            return (await asyncio.shield(made.task))[1]

        async def render(request: Request, caller: Identity) -> tuple[int, Response]:
            try:
                last = await run_in_threadpool(_find_last_event, request, caller)
            except SpindleError:
                last = 0
            return last, await handle(request)

        def forget(key: Hashable, made: _Rendering) -> None:
            if renderings.get(key) is made:
                del renderings[key]

        return handle_live


def _find_last_event(request: Request, caller: Identity) -> int:
    """Return the id of the last event that the page may show, 0 where no stream tells of its changes."""
    database, ids = get_services(request).database, request.path_params
    if "executionId" in ids:
        names = ("projectId", "jobId", "executionId")
        return get_last_id_of_execution(database, caller, *(ids[name] for name in names))
    return get_last_id(database, caller, ids["projectId"]) if "projectId" in ids else 0
