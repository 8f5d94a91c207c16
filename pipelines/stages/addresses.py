"""Addresses of other systems, such as databases, which must pass the fetch guard before Spark connects to them."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pipelines.errors import RunError
from pipelines.fetch.guard import Guard, GuardRefused

if TYPE_CHECKING:
    from pipelines.planning.context import RunContext


def resolve_host(host: str, port: int, context: RunContext, system: str) -> Sequence[str]:
    """Return the numeric addresses of a host, all of which have passed the guard; raise RunError."""
    guard, name = Guard(context.fetch.allow_networks, context.fetch.own_endpoints), host.strip("[]")
    try:
        found = [str(each[4][0]) for each in socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)]
        for numeric in found:
            guard.check(numeric, port)
    except GuardRefused as refused:
        raise RunError(f"{system} cannot be reached: {refused.describe_for(name)}") from None
    except (OSError, ValueError):
        raise RunError(f"{system} cannot be reached: there is no host '{name}'") from None
    return found
