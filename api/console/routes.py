"""Routes of the console's pages: a session's cookie identifies the caller, and errors are pages."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response

from api.console.rendering import render
from api.kit.auth import CONSOLE_HEADER, KeyRoute
from api.kit.pagination import Page
from core.errors import SpindleError, Unauthorized

PAGE_LENGTH = 50
MARK = (CONSOLE_HEADER.lower().encode(), b"page")


class ConsoleRoute(KeyRoute):
    """A page that is read: opening it changes nothing, so the cookie alone identifies the caller."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_page(request: Request) -> Response:
            request.scope["headers"] = [*request.scope["headers"], MARK]
            try:
                return await handle(request)
            except Unauthorized:
                target = f"{request.url.path}?{request.url.query}".rstrip("?")
                return render(request, "sign_in.html", HTTPStatus.UNAUTHORIZED, target=target, problem=None)
            except SpindleError as error:
                return render(request, "error.html", error.status, error=error)

        return handle_page


class ConsolePage(Page):
    """A part of a list as long as a page shows it."""

    def __init__(self, request: Request, response: Response, cursor: Annotated[str | None, Query()] = None) -> None:
        super().__init__(request, response, PAGE_LENGTH, cursor)


ConsolePageOf = Annotated[ConsolePage, Depends()]


def open_router(route: type[ConsoleRoute] = ConsoleRoute) -> APIRouter:
    """Return a router for pages under `/console`."""
    return APIRouter(prefix="/console", route_class=route, include_in_schema=False)
