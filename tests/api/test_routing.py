"""The index of routes answers as the routes would, one after the other."""

from __future__ import annotations

import re

import pytest
from fastapi import FastAPI
from fastapi.routing import iter_route_contexts
from starlette.routing import BaseRoute, Match

from api.app import create_app
from api.kit.routing import FOUND, RouteIndex
from core.infra.settings import Settings


@pytest.fixture(scope="module")
def app() -> FastAPI:
    return create_app(Settings())


def first(routes: list[BaseRoute], method: str, path: str) -> BaseRoute | None:
    """The innermost route that the router and those within it find."""
    scopes = ((route, request(method, path)) for route in iter_route_contexts(routes))
    return next((route.original_route for route, scope in scopes if route.matches(scope)[0] is Match.FULL), None)


def request(method: str, path: str) -> dict[str, object]:
    return {"type": "http", "method": method, "path": path, "root_path": "", "headers": []}


def test_it_finds_every_operation_where_the_router_does(app: FastAPI) -> None:
    index, *routes = app.routes
    assert isinstance(index, RouteIndex)
    found = 0
    for context in iter_route_contexts(routes):
        for text in ("x", "id", "test", "jobs"):
            path = re.sub(r"{\w+}", text, context.path_format or "")
            for method in context.methods or ():
                match, scope = index.matches(request(method, path))
                assert match is Match.FULL
                assert scope[FOUND].original_route is scope["route"] is first(routes, method, path)
                found += 1
    assert found > 400


@pytest.mark.parametrize(("method", "path"), [("GET", "/"), ("GET", "/api/nothing"), ("POST", "/livez"), ("GET", "//")])
def test_what_is_no_operation_is_left_to_the_router(app: FastAPI, method: str, path: str) -> None:
    assert app.routes[0].matches(request(method, path))[0] is Match.NONE
