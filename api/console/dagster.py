"""The Dagster UI at `/console/dagster`, behind the console's session; requests and WebSockets go on to its port.

Dagster knows no organizations. Its UI shows all of them, so it is shown where there is one, or to super_admins. Who may
not execute may look: mutations are refused, and others are in the audit log.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

import anyio
import httpx
from fastapi import APIRouter, Request, Response, WebSocket, WebSocketDisconnect
from fastapi.responses import FileResponse, StreamingResponse
from fastapi.staticfiles import StaticFiles
from starlette.concurrency import run_in_threadpool
from starlette.requests import HTTPConnection
from starlette.types import Receive, Scope, Send

from api.console.rendering import may_see_dagster
from api.console.routes import ConsoleRoute
from api.console.sessions import check_origin
from api.kit.auth import authorize, extract_session, require
from api.kit.services import Services, get_services
from core.definitions.identity.api_keys import Identity
from core.definitions.identity.roles import SUPER_ADMIN
from core.errors import BadInput, Forbidden, NotFound, SpindleError, Unauthorized, Unavailable

PREFIX = "/console/dagster"
EXECUTE = "etl:execute"
PROTOCOL = "graphql-ws"  # of Dagster's WebSocket
DOCUMENTS = 1000  # whose kinds are remembered: the UI repeats its documents
MAX_DOCUMENT, MAX_TOKENS = 200_000, 10_000  # parsed within 0.1 s, in which nobody else is served
TIMEOUT = httpx.Timeout(60).as_dict()
HOP_HEADERS = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length"})
OWN_HEADERS = HOP_HEADERS | {"host", "cookie", "authorization", "x-api-key", "upgrade", "te", "expect"}
ANSWER_HEADERS = HOP_HEADERS | {"server", "date"}  # which this server writes itself
WATCH_SECONDS = 10.0  # until a WebSocket of a session that has ended is closed
CLOSED_BY_POLICY = 1008
MAX_REASON = 120  # of the 123 bytes that a WebSocket's end has for it
NO_ANSWER = "The Dagster UI does not answer. It starts some seconds after the service."
READ_METHODS = ("GET", "HEAD")
ALL_METHODS = [*READ_METHODS, "POST", "PUT", "PATCH", "DELETE"]

_changing: dict[bytes, bool] = {}  # by digests of documents
router = APIRouter(prefix=PREFIX, include_in_schema=False)
pages = APIRouter(prefix=PREFIX, include_in_schema=False, route_class=ConsoleRoute)


@lru_cache(maxsize=100)  # files of a page: 60, of 5 MB
def _read_script(path: str | os.PathLike[str]) -> bytes:
    return Path(path).read_bytes()


class Scripts(StaticFiles):
    """The files of Dagster's own code, the same for everybody. Their names have their digests: browsers keep them."""

    def __init__(self) -> None:
        super().__init__(packages=[("dagster_webserver", "webapp/build/_next")])

    def file_response(self, full_path: str | os.PathLike[str], *args: Any, **options: Any) -> Response:
        response = super().file_response(full_path, *args, **options)
        if isinstance(response, FileResponse):  # which would use four threads, one after the other
            kept = {name: value for name, value in response.headers.items() if name != "accept-ranges"}
            response = Response(_read_script(full_path), headers=kept)
        response.headers["Cache-Control"] = "public, max-age=31536000, immutable"
        return response


class _RelayedResponse(StreamingResponse):
    """An answer of Dagster as it arrives. Its connection serves others afterwards, and ends when nobody reads on."""

    def __init__(self, answer: httpx.Response) -> None:
        super().__init__(answer.aiter_raw(), answer.status_code)
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            with anyio.CancelScope(shield=True):
                await self._answer.aclose()


@pages.api_route("/notebook", methods=ALL_METHODS)
@pages.api_route("/dagit/notebook", methods=ALL_METHODS)
async def refuse_notebook() -> Response:
    """Refuse the page that reads files of any folder; no asset of Spindle has notebooks."""
    raise NotFound("Spindle has no notebooks.", code="unknown-path")


@pages.api_route("", methods=ALL_METHODS)
@pages.api_route("/{path:path}", methods=ALL_METHODS)
async def forward_request(request: Request) -> Response:
    """Hand on a request, where the session's rights allow it."""
    services, identity = get_services(request), request.state.identity
    if identity.may(SUPER_ADMIN):
        check_access(services, identity)  # which needs no database then
    else:
        await run_in_threadpool(check_access, services, identity)
    body = await request.body()
    changing = posted = request.method not in READ_METHODS
    if _is_graphql(request):  # Dagster follows mutations in addresses, too
        changing = any([changes_something(document) for document in _list_documents(request, body)])
    if posted or changing:
        check_origin(request, services)
    if changing:
        authorize(request, EXECUTE)
    return await _forward(request, body)


@router.websocket("/graphql")
async def forward_websocket(socket: WebSocket) -> None:
    """Hand on the subscriptions of the UI until either side or the session ends."""
    from websockets.asyncio.client import connect  # when it is needed first
    from websockets.exceptions import WebSocketException

    services = get_services(socket)
    try:
        check_origin(socket, services)
        await run_in_threadpool(_authenticate, socket, services)
    except SpindleError as error:
        await socket.close(CLOSED_BY_POLICY, str(error)[:MAX_REASON])
        return
    address = f"ws://127.0.0.1:{services.settings.dagster.ui_port}/graphql"
    try:
        async with connect(address, subprotocols=[PROTOCOL], proxy=None, max_size=None) as dagster:  # pyright: ignore[reportArgumentType]
            await socket.accept(PROTOCOL)

            async def send_questions() -> None:
                while True:
                    try:
                        text = await socket.receive_text()
                    except KeyError:
                        raise BadInput("A message is text, not bytes.", code="bad-graphql") from None
                    if (question := _read_question(text)) and changes_something(question):
                        raise Forbidden("Send what changes something by HTTP: the audit log has that.")
                    await dagster.send(text)

            async def send_answers() -> None:
                async for message in dagster:
                    await socket.send_text(message if isinstance(message, str) else message.decode())

            async def watch_session() -> None:
                while True:
                    await asyncio.sleep(WATCH_SECONDS)
                    await run_in_threadpool(_authenticate, socket, services)

            tasks = [asyncio.create_task(each()) for each in (send_questions, send_answers, watch_session)]
            try:
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    await task
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
        reason = NO_ANSWER
    except WebSocketDisconnect:
        return
    except SpindleError as error:
        reason = str(error)
    except (OSError, WebSocketException):
        reason = NO_ANSWER
    await socket.close(CLOSED_BY_POLICY, reason[:MAX_REASON])


def check_access(services: Services, identity: Identity) -> None:
    """Raise Forbidden where the UI would show records that the caller may not see."""
    require(identity, "etl:read")
    if not may_see_dagster(services, identity):
        raise Forbidden(
            "The Dagster UI shows every organization of this service, so it is open to super_admins alone. "
            "The console has the executions, schedules and datasets of yours.",
            code="dagster-shows-all",
        )


def changes_something(document: str) -> bool:
    """Return whether a GraphQL document has a mutation; raise BadInput if it cannot be read."""
    from graphql import GraphQLError, OperationDefinitionNode, OperationType, parse  # when it is needed first

    digest = hashlib.sha256(document.encode("utf-8", "surrogatepass")).digest()
    if (known := _changing.get(digest)) is not None:
        return known
    try:
        if len(document) > MAX_DOCUMENT:
            raise GraphQLError(f"it has more than {MAX_DOCUMENT:,} characters")
        found = parse(document, no_location=True, max_tokens=MAX_TOKENS)
    except GraphQLError as error:
        raise BadInput(f"The GraphQL document cannot be read: {error.message}", code="bad-graphql") from error
    except RecursionError:
        raise BadInput("The GraphQL document is nested too deep.", code="bad-graphql") from None
    kinds = {each.operation for each in found.definitions if isinstance(each, OperationDefinitionNode)}
    if len(_changing) >= DOCUMENTS:
        _changing.clear()
    _changing[digest] = OperationType.MUTATION in kinds
    return _changing[digest]


def add_prefix(page: str, prefix: str) -> str:
    """Return the page of Dagster's UI with the path where its files and requests are, as `--path-prefix` does."""
    for name in ("window.__webpack_public_path__ = ", '"pathPrefix": ', '"assetPrefix":'):
        page = page.replace(f'{name}""', f"{name}{json.dumps(prefix)}")
    return page.replace('href="/', f'href="{prefix}/').replace('src="/', f'src="{prefix}/')


def _authenticate(connection: HTTPConnection, services: Services) -> None:
    token = extract_session(connection.headers)
    if token is None:
        raise Unauthorized("Sign in to the console first.")
    check_access(services, services.keys.authenticate_uncached(token))


def _is_graphql(request: Request) -> bool:
    return request.url.path.rstrip("/").endswith(f"{PREFIX}/graphql")


def _list_documents(request: Request, body: bytes) -> Iterable[str]:
    """Return all GraphQL documents that Dagster may take from the request: from its address, its JSON, its text."""
    yield from request.query_params.getlist("query")
    kind = request.headers.get("content-type", "")
    if body and "application/graphql" in kind and "application/json" not in kind:
        yield body.decode(errors="replace")
    elif body:
        value = _load(body)
        if not isinstance(value, dict) or not isinstance(value.get("query"), str):  # Dagster takes no lists of them
            raise BadInput("The body has no 'query'.", code="bad-graphql")
        yield value["query"]


def _read_question(text: str) -> str | None:
    """Return the document of a message, if it has one; raise BadInput for a text that Dagster may read otherwise."""
    message = _load(text)
    payload = message.get("payload") if isinstance(message, dict) else None
    query = payload.get("query") if isinstance(payload, dict) else None
    return query if isinstance(query, str) else None


def _load(text: str | bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadInput("This is no JSON, or it is nested too deep.", code="bad-graphql") from error


async def _forward(request: Request, body: bytes) -> Response:
    services = get_services(request)
    raw: bytes = request.scope.get("raw_path") or request.url.path.encode()
    path = raw.removeprefix(PREFIX.encode()) or b"/"
    is_ours = raw.startswith(f"{PREFIX}/".encode()) or raw == PREFIX.encode()  # written with %, its end may be a host
    is_plain = {b".", b".."}.isdisjoint(path.split(b"/"))  # else httpx asks for another path than the one checked here
    if not (is_ours and is_plain):
        raise NotFound("The path of the Dagster UI is written in another way.", code="unknown-path")
    question_mark = b"?" if request.url.query else b""
    address = httpx.URL(
        scheme="http",
        host="127.0.0.1",
        port=services.settings.dagster.ui_port,
        raw_path=path + question_mark + request.url.query.encode(),
    )
    headers = [(name, value) for name, value in request.headers.items() if name not in OWN_HEADERS]
    extensions = {"timeout": TIMEOUT}
    question = httpx.Request(request.method, address, headers=headers, content=body, extensions=extensions)
    try:
        answer = await services.dagster.handle_async_request(question)
        given = answer.headers.multi_items()
        kept = [(name.encode(), value.encode()) for name, value in given if name not in ANSWER_HEADERS]
        if not answer.headers.get("content-type", "").startswith("text/html"):
            response: Response = _RelayedResponse(answer)
            response.raw_headers = kept
            return response
        page = add_prefix((await answer.aread()).decode(), PREFIX).encode()
    except httpx.TransportError as error:
        raise Unavailable(NO_ANSWER) from error
    response = Response(page, answer.status_code)
    kept = [(name, value) for name, value in kept if name != b"content-encoding"]
    response.raw_headers = [*kept, (b"content-length", b"%d" % len(page))]
    return response
