"""Authentication, rate limit and scopes of requests; all are checked before the body is read."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from functools import wraps
from inspect import iscoroutinefunction
from typing import Annotated, Any

from fastapi import Request, Response, Security
from fastapi.routing import APIRoute
from fastapi.security import APIKeyHeader, SecurityScopes
from fastapi.security.base import SecurityBase
from starlette.concurrency import run_in_threadpool
from starlette.requests import cookie_parser

from api.kit.idempotency import REPLAYED, answer_once
from api.kit.services import get_services
from api.kit.sessions import open_sessions
from core.definitions.identity.api_keys import Identity
from core.definitions.identity.console_sessions import is_session
from core.errors import Forbidden, TooMany, Unauthorized, Unavailable
from core.infra.rate_limits import Allowance
from core.tables import now

HEADER = "X-API-Key"
SCHEMES = ("apikey", "bearer")
CONSOLE_HEADER = "X-Spindle-Console"
SESSION_COOKIE = "spindle_session"
key_header = APIKeyHeader(
    name=HEADER,
    scheme_name="ApiKeyAuth",
    description="Also understood as `Authorization: ApiKey <key>` or `Authorization: Bearer <key>`.",
    auto_error=False,
)


def extract_key(headers: Mapping[str, str]) -> str | None:
    """Return the API key from any of the accepted headers, or the token of a session of the console.

    Browsers send the session's cookie with requests of other sites too, but a header only with those of the console.
    """
    if key := headers.get(HEADER):
        return key
    scheme, _, key = headers.get("authorization", "").strip().partition(" ")
    if scheme.lower() in SCHEMES and key.strip():
        return key.strip()
    return extract_session(headers) if CONSOLE_HEADER in headers else None


def extract_session(headers: Mapping[str, str]) -> str | None:
    """Return the token of a session of the console, from its cookie."""
    token = cookie_parser(headers.get("cookie", "")).get(SESSION_COOKIE)
    return token if token and is_session(token) else None


def identify(request: Request) -> Identity:
    """Authenticate the request and count it.

    Raises Unauthorized without a valid key, TooMany beyond the rate limit. Identity and allowance are stored in
    `request.state`, for the scopes and the RateLimit headers.
    """
    services = get_services(request)
    request.state.identity = identity = services.keys.authenticate(_require_key(request))
    try:
        request.state.allowance = services.limiter.admit(identity.key_id, now())
    except TooMany as error:
        request.state.allowance = Allowance(services.settings.api.requests_per_minute, 0, error.retry_after)
        raise
    return identity


async def count_unidentified(request: Request) -> None:
    """Count a request that no route has identified, if its key is valid. Raises TooMany beyond the rate limit."""
    if extract_key(request.headers) is None or hasattr(request.state, "allowance"):
        return
    with suppress(Unauthorized, Unavailable):  # the answer is the same to anybody
        if not _identify_from_memory(request):
            await run_in_threadpool(identify, request)


async def identify_caller(request: Request) -> Identity:
    """Authenticate the request and count it, as `identify` does, without a thread where memory has the key."""
    if not _identify_from_memory(request):
        await run_in_threadpool(identify, request)
    request.state.admitted = True
    return request.state.identity


def authorize(request: Request, *scopes: str) -> Identity:
    """Return the caller; raise Forbidden unless it has all of the scopes. The audit log reads them."""
    identity: Identity = request.state.identity
    request.state.scopes = scopes
    require(identity, *scopes)
    return identity


def require(identity: Identity, *scopes: str) -> None:
    """Raise Forbidden unless the caller has all of the scopes."""
    missing = [scope for scope in scopes if not identity.may(scope)]
    if missing:
        owner = "Your role" if identity.key_id == identity.person_id else "This key"
        raise Forbidden(f"{owner} lacks the scope {', '.join(missing)}.", code="missing-scope")


def _identify_from_memory(request: Request) -> bool:
    """Do the same as `identify` without the database; return False where that is not possible."""
    services = get_services(request)
    identity = services.keys.get(_require_key(request))
    if identity is None:
        return False
    request.state.identity = identity
    request.state.allowance = services.limiter.spend(identity.key_id, now())
    return request.state.allowance is not None


def _require_key(request: Request) -> str:
    key = extract_key(request.headers)
    if key is None:
        raise Unauthorized(f"Send an API key in the header {HEADER}.")
    return key


def _run_in_thread(endpoint: Callable[..., Any]) -> Callable[..., Any]:
    endpoint = open_sessions(endpoint)

    @wraps(endpoint)
    async def run(**arguments: Any) -> Any:
        return await run_in_threadpool(endpoint, **arguments)

    return run


class KeyRoute(APIRoute):
    """A route that authenticates a request before its body is read, and may answer it once (`REPLAYED`).

    Blocking endpoints run in a thread. Wrapping them here keeps FastAPI from validating the response in a second one.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        super().__init__(path, endpoint if iscoroutinefunction(endpoint) else _run_in_thread(endpoint), **options)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        replays = REPLAYED in self.dependencies

        async def handle_identified(request: Request) -> Response:
            if not hasattr(request.state, "admitted"):  # a route that shares its answers has identified it
                await identify_caller(request)
            return await (answer_once(request, handle) if replays else handle(request))

        return handle_identified


class _ScopeCheck(SecurityBase):
    """The dependency that returns the caller's identity if its key has the operation's scopes."""

    scheme_name = key_header.scheme_name
    model = key_header.model

    async def __call__(self, request: Request, needed: SecurityScopes) -> Identity:
        return authorize(request, *needed.scopes)


check_scopes = _ScopeCheck()
AnyKey = Annotated[Identity, Security(check_scopes)]
Reader = Annotated[Identity, Security(check_scopes, scopes=["etl:read"])]
Writer = Annotated[Identity, Security(check_scopes, scopes=["etl:write"])]
Executor = Annotated[Identity, Security(check_scopes, scopes=["etl:execute"])]
DatasetReader = Annotated[Identity, Security(check_scopes, scopes=["datasets:read"])]
DatasetWriter = Annotated[Identity, Security(check_scopes, scopes=["datasets:write"])]
Admin = Annotated[Identity, Security(check_scopes, scopes=["admin"])]
SuperAdmin = Annotated[Identity, Security(check_scopes, scopes=["super_admin"])]
