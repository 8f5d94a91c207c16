"""Preview of a web page, sandboxed: its scripts do not run and its resources do not load."""

from __future__ import annotations

import re
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response

from api.kit.auth import Executor, KeyRoute
from api.kit.concurrency import OUTBOUND
from api.kit.services import ServicesOf
from core.errors import BadInput
from core.integrations.web_pages import fetch_web_page

router = APIRouter(prefix="/html", tags=["html"], route_class=KeyRoute)
SANDBOX = {
    "Content-Security-Policy": "sandbox; default-src 'none'; img-src 'none'; style-src 'unsafe-inline'; "
    "base-uri 'none'; form-action 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
PROTOCOLS = ("http", "https")
_OWN_PROTOCOL = re.compile(r"\Ahttps?:/{1,2}", re.IGNORECASE)

PAGE: dict[int | str, dict[str, Any]] = {
    200: {"description": "The page.", "content": {"text/html": {"schema": {"type": "string"}}}}
}


@router.get("/{url:path}/{protocol}", summary="Fetch a web page", response_class=Response, responses=PAGE)
def read_html(
    url: Annotated[str, Path(description="The page, percent-encoded or not; a protocol of its own is left out.")],
    protocol: Annotated[str, Path(description="Protocol of the page.", json_schema_extra={"enum": list(PROTOCOLS)})],
    request: Request,
    caller: Executor,
    services: ServicesOf,
) -> Response:
    """Fetch a page as pipelines do and return its HTML, whose scripts do not run.

    Private addresses and the service's own ports are refused, and other content than HTML is 400.
    """
    address = _build_url(url, protocol, request.url.query)
    with OUTBOUND.acquire(caller.organization_id):
        page = fetch_web_page(services.settings, address)
    charset = f"; charset={page.charset}" if page.charset else ""
    return Response(page.body, headers=SANDBOX | {"Content-Type": f"text/html{charset}"})


def _build_url(url: str, protocol: str, query: str) -> str:
    """Assemble the page's URL. If it was not percent-encoded, its protocol is at the end of the query string."""
    before, slash, last = query.rpartition("/")
    if slash and protocol.lower() not in PROTOCOLS:
        url, protocol, query = f"{url}/{protocol}", last, before
    if protocol.lower() not in PROTOCOLS:
        sentence = "The last part of the path is the page's protocol: http or https."
        raise BadInput(sentence, path="protocol")
    address = f"{protocol.lower()}://{_OWN_PROTOCOL.sub('', url)}"
    return f"{address}?{query}" if query else address
