"""The page at `/`: addresses and first steps for people, the addresses as JSON for clients. It needs no key."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response

from api.kit.key_page import HEAD, POLICY
from api.kit.services import ServicesOf
from core.infra.settings import Settings
from core.infra.version import API_VERSION, get_version

router = APIRouter(include_in_schema=False)
LOOPBACK = ("127.0.0.1", "localhost", "::1")
HEADERS = {"Vary": "Accept", "Content-Security-Policy": POLICY}
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
        return JSONResponse({"name": "Spindle", **_get_versions(), **addresses}, headers=HEADERS)
    return HTMLResponse(_render_page(settings, addresses, str(request.base_url)), headers=HEADERS)


def _get_versions() -> Mapping[str, str]:
    return {"version": get_version(), "apiVersion": API_VERSION}


def _list_addresses(settings: Settings) -> Mapping[str, str]:
    """Return the paths of this server and, to callers on its own machine, the address of the Dagster UI."""
    root = settings.api.root_path
    addresses = {
        "api": f"{root}/{settings.api.service_segment}/api",
        "docs": f"{root}/docs",
        "openapi": f"{root}/openapi.json",
        "health": f"{root}/health",
    }
    return addresses | (
        {"dagster": f"http://127.0.0.1:{settings.dagster.ui_port}"} if settings.api.host in LOOPBACK else {}
    )


def _render_page(settings: Settings, addresses: Mapping[str, str], base_url: str) -> str:
    meanings = {
        "api": "the REST API; every request carries a key in the header <code>X-API-Key</code>",
        "docs": "its operations, to read and to try out",
        "openapi": "the same for programs, such as generators of clients",
        "health": "whether the service and its database work; needs a key",
        "dagster": "runs and their steps, on the server's own machine",
    }
    rows = "".join(
        f"<tr><td>{_link(address, addresses['docs'] if name == 'api' else address)}</td><td>{meanings[name]}</td></tr>"
        for name, address in addresses.items()
    )
    service = (settings.api.public_url or base_url).rstrip("/") + addresses["api"]
    return (
        f"{HEAD}<body><h1>Spindle</h1>"
        "<p>YAML pipelines that turn web pages and files into datasets that SQL can query. A <b>project</b> groups "
        "jobs. An <b>agent</b> holds a pipeline. A <b>job</b> runs an agent's pipeline; each run is an "
        "<b>execution</b>, and its rows are a <b>dataset</b>, which is a table in SQL.</p>"
        f"<p>Version {get_version()}, API {API_VERSION}.</p>"
        f"<table>{rows}</table><h2>First steps</h2><pre>{escape(STEPS.format(service=service))}</pre>"
        f"<p>Then create a project, an agent and a job and execute it: the <a href='{escape(addresses['docs'])}'>"
        "docs</a> list the operations in the order in which they are used.</p></body></html>"
    )


def _link(address: str, target: str) -> str:
    return f"<a href='{escape(target)}'><code>{escape(address)}</code></a>"
