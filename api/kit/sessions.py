"""Sessions of requests: one transaction around an endpoint, in its thread, committed before the answer is sent."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import wraps
from inspect import Parameter, signature
from typing import Annotated, Any, get_args, get_type_hints

from fastapi import Request
from sqlalchemy.orm import Session

from api.kit.services import get_services

READ, WRITE = "read", "write"
ReadSession = Annotated[Session, READ]
"""A parameter of an endpoint: a transaction that reads."""
WriteSession = Annotated[Session, WRITE]
"""A parameter of an endpoint: a transaction that is committed when the endpoint returns, rolled back when it raises."""
_REQUEST = "request_of_sessions"


def open_sessions(endpoint: Callable[..., Any]) -> Callable[..., Any]:
    """Return the endpoint with its session parameters filled in, which FastAPI does not see."""
    kinds = {
        name: kind
        for name, hint in get_type_hints(endpoint, include_extras=True).items()
        if (kind := get_args(hint)[-1:]) in ((READ,), (WRITE,))
    }
    if not kinds:
        return endpoint

    @wraps(endpoint)
    def run(**arguments: Any) -> Any:
        database = get_services(arguments.pop(_REQUEST)).database
        with ExitStack() as stack:
            for name, (kind,) in kinds.items():
                opened = database.write() if kind == WRITE else database.read()
                arguments[name] = stack.enter_context(opened)
            return endpoint(**arguments)

    declared = signature(endpoint)
    visible = [each for name, each in declared.parameters.items() if name not in kinds]
    request = Parameter(_REQUEST, Parameter.KEYWORD_ONLY, annotation=Request)
    run.__dict__["__signature__"] = declared.replace(parameters=[*visible, request])
    return run
