"""A site whose pages load what they show: a listing from JSON, lists without an end, frames."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

from tests.support.servers import Handler, serve

_PAGES, _ITEMS = 3, 10  # of the listing
# the next page of JSON is asked for at the end of the list, which is the window's or scrolls by itself
_LISTING = """<!doctype html><body><h1>Listing</h1><ul STYLE></ul><script>
const list = document.querySelector('ul'), box = SCROLLED;
let page = 0, loading = false;
const more = async () => {
  if (loading || page >= LAST) return;
  loading = true;
  const answer = await fetch('/api/items?page=' + ++page, {headers: {Accept: 'application/json'}});
  for (const {name} of (await answer.json()).items) {
    const item = document.createElement('li'); item.style.height = '150px'; item.textContent = name;
    list.append(item); }
  loading = false;
};
more();
box.addEventListener('scroll', () => {
  const top = box === window ? scrollY : box.scrollTop;
  const height = box === window ? innerHeight : box.clientHeight;
  const whole = (box === window ? document.documentElement : box).scrollHeight;
  if (top + height > whole - 50) more(); });
fetch('/api/visits?token=hush', {method: 'POST', body: '{}'}); fetch('/text');
</script></body>"""


def _write_listing(scrolled: str, style: str = "", last: int = _PAGES) -> str:
    return _LISTING.replace("SCROLLED", scrolled).replace("STYLE", style).replace("LAST", str(last))


_INNER = (
    "<!doctype html><meta charset=utf-8><body><h2>Inner</h2><shop-price></shop-price><script>"
    "const root = document.querySelector('shop-price').attachShadow({mode: 'open'});"
    "root.innerHTML = '<button>show</button><b></b>';"
    "root.querySelector('button').onclick = () => { root.querySelector('b').textContent = '12 €'; };"
    "JSON.stringify = () => 'tampered'</script>"
)
PAGES = {
    "/listing": _write_listing("window"),
    "/boxed": _write_listing("list", "style='height:400px;overflow:auto'"),
    "/forever": _write_listing("window", last=1000),
    "/login": "<!doctype html><body><h1>Welcome back</h1><form><input type=password name=p></form>",
    "/offer": "<!doctype html><body><script>document.write(localStorage.token ? '<h1>Lamp</h1><b class=price>2.50</b>'"
    " : '<h1>Welcome back</h1><form><input type=password></form>')</script>",
    "/broken": "<!doctype html><body><script>fetch('/api/gone')</script>",
    "/inner": _INNER,
    "/framed": "<!doctype html><body><h1>Outer</h1><iframe name=other src=/text></iframe>"
    "<iframe name=prices src=/inner></iframe>",
    "/nested": "<!doctype html><body><h1>Top</h1><shop-frame></shop-frame><script>"
    "document.querySelector('shop-frame').attachShadow({mode: 'open'}).innerHTML ="
    "'<iframe id=middle src=/framed></iframe>'</script>",
}


class ScriptedSite:
    """The site's state: counts of requests by path, and pages that tests may change; `elsewhere` is its other host."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.elsewhere = url.replace("127.0.0.1", "localhost")
        self.requests: Counter[str] = Counter()
        self.pages = dict(PAGES)
        self.session = f"session-{uuid4().hex}"

    @property
    def state(self) -> dict[str, Any]:
        """The storage state of a browser that is logged in: a cookie, and a token that scripts read."""
        cookie = {"name": "sid", "value": self.session, "domain": "127.0.0.1", "path": "/", "httpOnly": True}
        token = {"name": "token", "value": json.dumps({"access": f"token-{self.session}"})}
        return {"cookies": [cookie], "origins": [{"origin": self.url, "localStorage": [token]}]}


class ScriptedSiteHandler(Handler):
    site: ScriptedSite

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        self.site.requests[parts.path] += 1
        if parts.path in ("/members", "/enter"):
            self._show_members(parts.path == "/enter")
            return
        if parts.path == "/api/items":
            page = int(parse_qs(parts.query)["page"][0])
            time.sleep(0.8 if page > 1 else 0)  # longer than two pauses of scroll_to_bottom
            names = [{"name": f"item {(page - 1) * _ITEMS + number}"} for number in range(1, _ITEMS + 1)]
            self.respond(200, json.dumps({"page": page, "items": names}), "application/json")
        elif parts.path == "/api/gone":
            self.respond(410, '{"error": "gone"}', "application/json")
        elif parts.path.startswith("/api/"):
            self.respond(200, "{}", "application/json")
        elif parts.path in self.site.pages:
            self.respond(200, self.site.pages[parts.path], "text/html; charset=utf-8")
        else:
            self.respond(200 if parts.path == "/text" else 404, "plain", "text/plain")

    def _show_members(self, enters: bool) -> None:
        """Show the members' page to the site's session, or begin one; lead others to the login."""
        if enters:
            self.respond(302, "", Location="/members", Set_Cookie=f"sid={self.site.session}; Path=/; HttpOnly")
        elif f"sid={self.site.session}" in self.headers.get("Cookie", ""):
            self.respond(200, "<a class=offer href=/offer>offer</a>")
        else:
            self.respond(302, "", Location="/login")

    def do_POST(self) -> None:
        self.read_body()
        self.do_GET()


@contextmanager
def serve_scripted_site() -> Generator[ScriptedSite]:
    handler = type("Handler", (ScriptedSiteHandler,), {})
    with serve(handler) as url:
        handler.site = ScriptedSite(url)
        yield handler.site
