"""The page that a browser gets instead of an answer that needs a key, which no link can send."""

from __future__ import annotations

from html import escape

from fastapi import Request
from fastapi.responses import HTMLResponse

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:46rem;margin:2rem auto;padding:0 1rem}"
    "pre{background:#8881;padding:.8rem;overflow-x:auto}td{padding:.1rem 1.5rem .1rem 0;vertical-align:top}"
    ":root{color-scheme:light dark}"
)
HEAD = (
    "<!doctype html><html lang=en><head><meta charset=utf-8><title>Spindle</title>"
    f"<meta name=viewport content='width=device-width'><style>{STYLE}</style></head>"
)
COMMAND = """\
# the first key is in the file admin-key of the data folder
curl -H "X-API-Key: $(cat .spindle/admin-key)" '{url}'"""


def wants_page(request: Request) -> bool:
    """Return whether a person has opened the address in a browser, and sends no key."""
    headers = request.headers
    has_key = "x-api-key" in headers or "authorization" in headers
    return request.method == "GET" and not has_key and "text/html" in headers.get("accept", "")


def render_key_page(request: Request, sentence: str, docs: str) -> HTMLResponse:
    """Return how to read an address that needs a key: in a shell, or in the API's documentation."""
    command = COMMAND.format(url=str(request.url).replace("'", "%27"))
    page = (
        f"{HEAD}<body><h1>This address needs a key</h1><p>{escape(sentence)}</p><pre>{escape(command)}</pre>"
        f"<p>Or open the <a href='{escape(docs)}'>docs</a>, give the key under <b>Authorize</b> and try the operation "
        "there.</p></body></html>"
    )
    headers = {"Vary": "Accept", "Content-Security-Policy": POLICY, "WWW-Authenticate": "ApiKey"}
    return HTMLResponse(page, 401, headers)
