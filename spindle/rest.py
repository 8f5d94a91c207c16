"""REST operations of plugins: a `Router` collects them, and the service serves them under `/svc/api/NAME`.

Apart from `spindle`, since it imports FastAPI; `docs/plugins.md` has an example.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

from fastapi import Depends, Request
from httpx import Response
from sqlalchemy.orm import Session

__all__ = ["Caller", "CallerOf", "RestError", "Router", "Scope"]

Scope = Literal["etl:read", "etl:write", "etl:execute", "datasets:read", "datasets:write", "jobs:execute", "admin"]
Method = Literal["GET", "POST", "PUT", "DELETE"]
Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])


class RestError(Exception):
    """An answer with an error status: a sentence with advice, a stable code and the field it is about."""

    def __init__(self, status: int, sentence: str, code: str, path: str = "") -> None:
        super().__init__(sentence)
        self.status, self.sentence, self.code, self.path = status, sentence, code, path


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller of an operation, and the service's work in its name.

    `read` and `write` open a transaction of the metadata database, for the plugin's own tables: each query there
    selects by `organization_id`. `request("GET", "projects")` calls an operation of the service with the caller's own
    key, which counts as one of its requests. `read_file(hash)` returns a file that the organization's executions share,
    by the SHA-256 of its content; None for another one. `settings` is the object of the plugin's settings.
    """

    organization_id: str
    read: Callable[[], AbstractContextManager[Session]]
    write: Callable[[], AbstractContextManager[Session]]
    request: Callable[..., Response]
    read_file: Callable[[str], bytes | None]
    settings: Any


async def _get_caller(request: Request) -> Caller:
    return request.state.plugin_caller


CallerOf = Annotated[Caller, Depends(_get_caller)]
"""The type of an operation's parameter that is the caller."""


@dataclass(frozen=True, slots=True)
class Route:
    """One operation; `options` are those of a FastAPI route, and `upload` allows for a large body."""

    method: Method
    path: str
    scope: Scope
    endpoint: Callable[..., Any]
    upload: bool
    options: dict[str, Any]


@dataclass(frozen=True, slots=True)
class OpenPage:
    """A web page that needs no key, with the inline scripts and styles in its text and nothing from elsewhere."""

    path: str
    html: str


class Router:
    """The operations of a plugin, which are plain functions as FastAPI takes them: they run in a thread.

    An operation names the scope that the caller's key needs; the first lines of its docstring describe it.
    """

    def __init__(self) -> None:
        self.routes: list[Route] = []
        self.pages: list[OpenPage] = []

    def add(
        self, method: Method, path: str, *, scope: Scope, upload: bool = False, **options: Any
    ) -> Callable[[Endpoint], Endpoint]:
        """Function decorator that adds an operation; `path` begins with a slash, below the plugin's own path.

        The body of an `upload` may be as large as the service's own uploads of datasets, other bodies 4 MiB.
        """

        def add_route(endpoint: Endpoint) -> Endpoint:
            self.routes.append(Route(method, path, scope, endpoint, upload, options))
            return endpoint

        return add_route

    def add_page(self, path: str, html: str) -> None:
        """Add a web page, the same to everybody; its script calls operations with a key that it asks for.

        The page may run the scripts and styles in its text, call this service and show images in `data:` addresses;
        its Content-Security-Policy forbids everything else.
        """
        self.pages.append(OpenPage(path, html))
