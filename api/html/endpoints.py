"""A web page through the service: what it holds runs nowhere and reads nothing."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Request, Response

from api.kit.auth import Executor, KeyRoute
from api.kit.service import ServiceOf
from core.html import fetch_html

router = APIRouter(prefix="/html", tags=["html"], route_class=KeyRoute)
SANDBOX = {
    "Content-Security-Policy": "sandbox; default-src 'none'; img-src 'none'; style-src 'unsafe-inline'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


PAGE: dict[int | str, dict[str, Any]] = {
    200: {"description": "The page.", "content": {"text/html": {"schema": {"type": "string"}}}}
}


@router.get("/{url:path}/{protocol}", summary="Fetch a web page", response_class=Response, responses=PAGE)
def read_html(
    url: Annotated[str, Path(description="The page without its protocol, percent-encoded or not.")],
    protocol: Annotated[Literal["http", "https"], Path()],
    request: Request,
    _caller: Executor,
    service: ServiceOf,
) -> Response:
    query = f"?{request.url.query}" if request.url.query else ""
    page = fetch_html(service.settings, f"{protocol}://{url}{query}")
    charset = f"; charset={page.charset}" if page.charset else ""
    return Response(page.body, headers=SANDBOX | {"Content-Type": f"text/html{charset}"})
