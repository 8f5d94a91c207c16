"""The page at `/`: addresses and first steps for people, the addresses as JSON for clients. It needs no key."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response

from api.kit.services import ServicesOf
from core.infra.settings import Settings

router = APIRouter(include_in_schema=False)
LOOPBACK = ("127.0.0.1", "localhost", "::1")
HEADERS = {"Vary": "Accept", "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"}
STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:46rem;margin:2rem auto;padding:0 1rem}"
    "pre{background:#8881;padding:.8rem;overflow-x:auto}td{padding:.1rem 1.5rem .1rem 0;vertical-align:top}"
    ":root{color-scheme:light dark}"
)
STEPS = """\
# the first key is in the file admin-key of the data folder
export SPINDLE_KEY=$(cat .spindle/admin-key)
API={service}

# who am I, and which stages are there?
curl -H "X-API-Key: $SPINDLE_KEY" $API/auth/organizations/me
curl -H "X-API-Key: $SPINDLE_KEY" $API/catalog/stages

# a pipeline without a server, then the jobs of a declaration on this one
bin/spindle run pipeline.yaml
bin/spindle apply -f spindle.yaml
bin/spindle execute PROJECT/JOB --follow
"""


@router.get("/")
def show_home(request: Request, services: ServicesOf) -> Response:
    settings = services.settings
    addresses = _list_addresses(settings)
    if "text/html" not in request.headers.get("accept", ""):
        return JSONResponse({"name": "Spindle", "version": request.app.version, **addresses}, headers=HEADERS)
    return HTMLResponse(_render_page(settings, addresses, str(request.base_url)), headers=HEADERS)


def _list_addresses(settings: Settings) -> Mapping[str, str]:
    """Return the paths of this server and, to callers on its own machine, the address of the Dagster UI."""
    root = settings.root_path
    addresses = {
        "api": f"{root}/{settings.service_segment}/api",
        "docs": f"{root}/docs",
        "openapi": f"{root}/openapi.json",
        "health": f"{root}/health",
    }
    return addresses | ({"dagster": f"http://127.0.0.1:{settings.ui_port}"} if settings.host in LOOPBACK else {})


def _render_page(settings: Settings, addresses: Mapping[str, str], base_url: str) -> str:
    meanings = {
        "api": "the REST API; every request carries a key in the header <code>X-API-Key</code>",
        "docs": "its operations, to read and to try out",
        "openapi": "the same for programs, such as generators of clients",
        "health": "whether the service and its database work; needs a key",
        "dagster": "runs and their steps, on the server's own machine",
    }
    rows = "".join(
        f"<tr><td>{_link(name, address)}</td><td>{meanings[name]}</td></tr>" for name, address in addresses.items()
    )
    service = (settings.public_url or base_url).rstrip("/") + addresses["api"]
    return (
        "<!doctype html><html lang=en><head><meta charset=utf-8><title>Spindle</title>"
        f"<meta name=viewport content='width=device-width'><style>{STYLE}</style></head><body><h1>Spindle</h1>"
        "<p>YAML pipelines that turn web pages and files into datasets that SQL can query. A <b>project</b> groups "
        "jobs. An <b>agent</b> holds a pipeline. A <b>job</b> runs an agent's pipeline; each run is an "
        "<b>execution</b>, and its rows are a <b>dataset</b>, which is a table in SQL.</p>"
        f"<table>{rows}</table><h2>First steps</h2><pre>{escape(STEPS.format(service=service))}</pre>"
        f"<p>Then create a project, an agent and a job and execute it: the <a href='{escape(addresses['docs'])}'>"
        "docs</a> list the operations in the order in which they are used.</p></body></html>"
    )


def _link(name: str, address: str) -> str:
    shown = escape(address)
    return f"<code>{shown}</code>" if name in ("api", "health") else f"<a href='{shown}'><code>{shown}</code></a>"
