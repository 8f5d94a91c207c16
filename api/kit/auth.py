"""Who calls, and what they may do. A key is asked for before anything of the request is read."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Mapping
from contextlib import contextmanager
from functools import wraps
from inspect import iscoroutinefunction
from typing import Annotated, Any

from fastapi import Request, Response, Security
from fastapi.routing import APIRoute
from fastapi.security import APIKeyHeader, SecurityScopes
from fastapi.security.base import SecurityBase
from starlette.concurrency import run_in_threadpool

from api.kit.services import get_services
from core.errors import CutOff, Forbidden, TooMany, Unauthorized
from core.identity.api_keys import Identity
from core.infra.rate_limits import Allowance
from core.tables import now

HEADER = "X-API-Key"
SCHEMES = ("apikey", "bearer")
key_header = APIKeyHeader(
    name=HEADER,
    scheme_name="ApiKeyAuth",
    description="Also understood as `Authorization: ApiKey <key>` or `Authorization: Bearer <key>`.",
    auto_error=False,
)


def presented_key(headers: Mapping[str, str]) -> str | None:
    """The key that a request carries, in any of the accepted headers."""
    if key := headers.get(HEADER):
        return key
    scheme, _, key = headers.get("authorization", "").strip().partition(" ")
    return key.strip() or None if scheme.lower() in SCHEMES else None


def identify(request: Request) -> Identity:
    """Raises Unauthorized without a valid key, TooMany when it has made its requests of this minute."""
    key = _key(request)
    services = get_services(request)
    request.state.identity = identity = services.keys.find(key)
    with _refusal_told(request):
        request.state.allowance = services.limiter.admit(identity.key_id, now())
    return identity


def _identified_at_once(request: Request) -> bool:
    """Does what `identify` does where the database need not be asked."""
    services = get_services(request)
    identity = services.keys.remembered(_key(request))
    if identity is None:
        return False
    request.state.identity = identity
    request.state.allowance = services.limiter.spend(identity.key_id, now())
    return request.state.allowance is not None


def _key(request: Request) -> str:
    key = presented_key(request.headers)
    if key is None:
        raise Unauthorized(f"Send an API key in the header {HEADER}.")
    return key


@contextmanager
def _refusal_told(request: Request) -> Generator[None]:
    """What is left is told in the answer's headers, whatever that is."""
    try:
        yield
    except TooMany as error:
        limit = get_services(request).settings.requests_per_minute
        request.state.allowance = Allowance(limit, 0, error.retry_after)
        raise


def _in_thread(endpoint: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(endpoint)
    async def run(**arguments: Any) -> Any:
        return await run_in_threadpool(endpoint, **arguments)

    return run


class KeyRoute(APIRoute):
    """A route that reads nothing of a request before its key is known to be valid.

    Endpoints that wait run in a thread; what they answer is not taken to another one to be checked.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        super().__init__(path, endpoint if iscoroutinefunction(endpoint) else _in_thread(endpoint), **options)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def guarded(request: Request) -> Response:
            if not _identified_at_once(request):
                await run_in_threadpool(identify, request)
            try:
                return await handle(request)
            except CutOff:
                if request.method != "GET":
                    raise
                return await handle(request)  # over new connections; a GET may be made twice, and writes last

        return guarded


class _Caller(SecurityBase):
    """Whom the route has identified, if it has the scopes that the operation needs."""

    scheme_name = key_header.scheme_name
    model = key_header.model

    async def __call__(self, request: Request, needed: SecurityScopes) -> Identity:
        identity: Identity = request.state.identity
        require(identity, *needed.scopes)
        return identity


def require(identity: Identity, *scopes: str) -> None:
    """Raises Forbidden unless the key has all of the scopes."""
    missing = [scope for scope in scopes if not identity.may(scope)]
    if missing:
        raise Forbidden(f"This key lacks the scope {', '.join(missing)}.")


_caller = _Caller()
AnyKey = Annotated[Identity, Security(_caller)]
Reader = Annotated[Identity, Security(_caller, scopes=["etl:read"])]
Writer = Annotated[Identity, Security(_caller, scopes=["etl:write"])]
Executor = Annotated[Identity, Security(_caller, scopes=["etl:execute"])]
DatasetReader = Annotated[Identity, Security(_caller, scopes=["datasets:read"])]
Admin = Annotated[Identity, Security(_caller, scopes=["admin"])]
SuperAdmin = Annotated[Identity, Security(_caller, scopes=["super_admin"])]
