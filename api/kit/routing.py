"""Finds the route of a request by its path's segments: asked one by one, all routes take longer than most answers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from urllib.parse import unquote

from fastapi.routing import RouteContext, iter_route_contexts
from starlette.routing import BaseRoute, Match
from starlette.types import Receive, Scope, Send

FOUND = "spindle.route"
_SLASH = "\ud800"  # an encoded slash; half a surrogate pair is not in any decoded path


class RouteIndex(BaseRoute):
    """Stands before the routes of a router and answers for those that it finds; the others are left to the router.

    Routes keep their order; those of routers within are called at once, where their routers would look for them again.
    A parameter that spans several segments is left to the router, too.
    """

    def __init__(self, routes: Sequence[BaseRoute]) -> None:
        self._shapes = _shapes(routes)

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        if scope["type"] != "http":
            return Match.NONE, {}
        scope = _mask_slashes(scope)
        segments = scope["path"].split("/")
        for fixed, route in self._shapes.get(len(segments), ()):
            if all(segments[place] == text for place, text in fixed):
                match, child_scope = route.matches(scope)
                if match is Match.FULL:
                    parameters = {
                        name: value.replace(_SLASH, "/") for name, value in child_scope["path_params"].items()
                    }
                    return match, {
                        **child_scope,
                        "path_params": parameters,
                        "route": route.original_route,
                        FOUND: route,
                    }
        return Match.NONE, {}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        await scope[FOUND].app(scope, receive, send)


def _mask_slashes(scope: Scope) -> Scope:
    """Return the scope with `_SLASH` in its path for each encoded slash, so that it separates no segments."""
    encoded: bytes = scope.get("raw_path") or b""
    if b"%2F" not in encoded and b"%2f" not in encoded:
        return scope
    segments = [unquote(segment).replace("/", _SLASH) for segment in encoded.decode("ascii").split("/")]
    return {**scope, "path": "/".join(segments)}


def _shapes(routes: Sequence[BaseRoute]) -> Mapping[int, Sequence[tuple[Sequence[tuple[int, str]], RouteContext]]]:
    """By the number of segments: those that are fixed, with their places, and the route."""
    shapes: defaultdict[int, list[tuple[Sequence[tuple[int, str]], RouteContext]]] = defaultdict(list)
    for route in iter_route_contexts(routes):
        segments = (route.path_format or "").split("/")
        fixed = tuple((place, text) for place, text in enumerate(segments) if "{" not in text)
        shapes[len(segments)].append((fixed, route))
    return shapes
