"""The one place that writes the audit log: changes by keys and people, and attempts at them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.kit.middleware import SLASH
from api.kit.openapi import make_operation_id
from api.kit.services import Services
from core.definitions.identity.audit import record_action
from core.definitions.identity.roles import READING_SCOPES

CHANGING = frozenset({"POST", "PUT", "PATCH", "DELETE"})
MAX_ANSWER = 64 * 2**10  # in which the id of a new record is looked for
ID_FIELDS = ("id", "executionId")
NAME_FIELDS = ("namespace", "name")  # by which records without an id are known: cron jobs and named schedules


class AuditLog:
    """Stores an entry for every request that changes something, before its answer is sent.

    These are those of other methods than GET, and GETs below `acting`, by a known caller, of operations that
    need more than a scope that reads.
    """

    def __init__(self, app: ASGIApp, acting: str) -> None:
        self._app = app
        self._acting = acting

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not (scope["method"] in CHANGING or scope["path"].startswith(self._acting)):
            await self._app(scope, receive, send)
            return
        start: Message = {}

        async def send_recorded(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start":
                start = message
                return
            if start:
                if _is_recorded(scope):
                    await run_in_threadpool(_record, scope, start["status"], _find_ids(start, message))
                await send(start)
                start = {}
            await send(message)

        try:
            await self._app(scope, receive, send_recorded)
        except Exception:
            if _is_recorded(scope):
                await run_in_threadpool(_record, scope, 500, {})
            raise


def _is_recorded(scope: Scope) -> bool:
    scopes = scope.get("state", {}).get("scopes")
    return scopes is not None and "route" in scope and not (scopes and READING_SCOPES.issuperset(scopes))


def _record(scope: Scope, status: int, made: Mapping[str, str]) -> None:
    services = cast("Services", scope["app"].state.services)
    named = {name: str(value).replace(SLASH, "/") for name, value in scope.get("path_params", {}).items()}
    new = {name: value for name, value in made.items() if value not in named.values()}
    action = make_operation_id(scope["route"])
    record_action(services.database, scope["state"]["identity"], action, named | new, status)


def _find_ids(start: Message, message: Message) -> Mapping[str, str]:
    """Return the ids of new records in the answer."""
    body: bytes = message.get("body", b"")
    if start["status"] >= 300 or message.get("more_body") or len(body) > MAX_ANSWER:
        return {}
    if not dict(start["headers"]).get(b"content-type", b"").startswith(b"application/json"):
        return {}
    answer: Any = json.loads(body)
    if not isinstance(answer, dict):
        return {}
    fields = cast("dict[str, object]", answer)
    known = [name for name in ID_FIELDS if fields.get(name) is not None]
    return {name: str(fields[name]) for name in known or NAME_FIELDS if fields.get(name) is not None}
