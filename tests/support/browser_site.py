"""A site for browsers: scripts, cookies, redirects, downloads, and pages that hang, grow or crash."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager

from tests.support.servers import Handler, serve

SHOP = """<!doctype html><html><head><title>Shop</title><script>
let page = 1;
function show() {
  document.querySelector('ul').innerHTML = [1, 2].map(n => `<li>item ${page}.${n}</li>`).join('');
}
addEventListener('DOMContentLoaded', () => {
  show();
  fetch('/api/products');
  document.querySelector('#next').onclick = () => { page += 1; show(); };
  document.querySelector('#late').onclick = () => setTimeout(() => {
    document.querySelector('#out').innerHTML = '<b class=came>came</b>'; }, 200);
  document.querySelector('form').onsubmit = event => { event.preventDefault();
    document.querySelector('#out').textContent = 'searched ' + document.querySelector('input').value; };
  document.querySelector('select').onchange = event => {
    document.querySelector('#out').textContent = 'chose ' + event.target.value; };
  document.querySelector('h1').onmouseover = () => { document.querySelector('#out').textContent = 'hovered'; };
});
</script></head><body><h1>Shop</h1><ul></ul><button id=next>next</button><button id=late>late</button>
<form><input name=q></form><select><option value=l>Lamps</option><option value=c>Cups</option></select>
<p id=out></p>
<iframe name=offers srcdoc='<b>offer</b>'></iframe><a class=next href=#top>top</a>
<a class=away href=/agent>agent</a></body></html>"""
FEED = """<!doctype html><body><h1>Feed</h1><div></div><script>
let n = 0;
const more = () => { for (let i = 0; i < 10; i++) {
  const p = document.createElement('p'); p.style.height = '200px'; p.textContent = 'post ' + (++n);
  document.querySelector('div').append(p); } };
more();
addEventListener('scroll', () => {
  if (n < 30 && innerHeight + scrollY > document.documentElement.scrollHeight - 50) more(); });
</script>"""
PAGES = {
    "/shop": SHOP,
    "/feed": FEED,
    "/": "<h1>Home</h1><ul><li><a href=/one>One</a></li><li><a href=/two>Two</a></li></ul>",
    "/one": "<body><script>onload = () => { document.body.innerHTML = '<h1>One, by script</h1>' }</script>",
    "/two": "<h1>Two</h1><a href=/one>one</a><a href=/three>three</a>",
    "/three": "<h1>Three</h1>",
    "/tampered": "<script>performance.getEntriesByType = JSON.stringify = document.querySelector = () => 'x';"
    "Object.defineProperty(document, 'contentType', {value: 'text/plain'})</script><h1>True</h1>",
    "/left": "<script>const had = localStorage.seen || document.cookie; localStorage.seen = 1;"
    "document.cookie = 'seen=1'; document.write('<h1>' + (had || 'nothing') + '</h1>')</script>",
    "/script-redirect": "<script>location = '/two'</script>",
    "/goes": "<script>location = '/elsewhere?/landing'</script><script src=/held></script>",
    "/posts": "<form method=post action=/elsewhere?/landing></form><script>document.forms[0].submit()</script>"
    "<script src=/held></script>",
    "/shadow": "<!doctype html><html lang=en title='</html>'><body><shop-item><template shadowrootmode=open>"
    "<h1>Lamp</h1><shop-price></shop-price></template>light</shop-item><p>last</p><script>"
    "const price = document.querySelector('shop-item').shadowRoot.querySelector('shop-price');"
    "price.attachShadow({mode: 'open'}).innerHTML = '<b>12 €</b>'</script>",
    "/popup": "<h1>Popup</h1><script>open('/three'); alert('hello'); confirm('sure?')</script>",
    "/hang": "<h1>Hang</h1><script>setTimeout(() => { while (true); }, 0)</script>",
    "/grow": "<h1>Grow</h1><script>document.write('x'.repeat(3_000_000))</script>",
    "/media": "<h1>Media</h1><img src=/i.png><video src=/v.mp4 autoplay muted></video>"
    "<style>@font-face { font-family: f; src: url(/f.woff2) } h1 { font-family: f }</style>",
    "/worker": "<h1 id=o>?</h1><script>navigator.serviceWorker.register('/sw.js')"
    ".then(() => o.textContent = 'registered', () => o.textContent = 'blocked')</script>",
    "/file": "<h1>File</h1><a href='file:///etc/passwd'>passwd</a><script>setTimeout(() => {"
    " try { location = 'file:///etc/passwd' } catch {} }, 0)</script>",
    "/data": "<h1>Data</h1><script>setTimeout(() => { location = 'data:text/html,<h1>no</h1>' }, 0)</script>",
    "/blank": "<h1>Blank</h1><script>location = 'about:blank'</script>",
}


class BrowserSite:
    """The site's state: counts of requests by path, the last request's headers, and pages that tests may change.

    `/slow` answers once two requests run at a time, or after `patience` seconds; `/gather` once five do.
    `impatient` counts the requests of `/gather` for which five did not come together.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.requests: Counter[str] = Counter()
        self.at_once = self.most_at_once = 0
        self.lock = threading.Lock()
        self.two_at_once, self.five_at_once = threading.Event(), threading.Event()
        self.patience = 0.2
        self.impatient = 0
        self.landed = threading.Event()
        self.headers: dict[str, str] = {}
        self.pages = dict(PAGES)


class BrowserSiteHandler(Handler):
    site: BrowserSite

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        self.site.requests[path] += 1
        self.site.headers = {name.lower(): value for name, value in self.headers.items()}
        if special := getattr(self, "_" + path.strip("/").replace("-", "_").replace("/", "_"), None):
            special()
        elif path in self.site.pages:
            self.answer(self.site.pages[path])
        else:
            self.answer("<h1>no</h1>", 404)

    def do_POST(self) -> None:
        self.read_body()
        self.do_GET()

    def answer(self, text: str, status: int = 200, kind: str = "text/html; charset=utf-8", **headers: str) -> None:
        self.respond(status, text, kind, **headers)

    def _agent(self) -> None:
        self.answer(f"<h1>{self.headers['User-Agent']}</h1>")

    def _api_products(self) -> None:
        self.answer('{"items": []}', kind="application/json")

    def _json(self) -> None:
        self.answer('{"a": [1, "<b>"]}', kind="application/json")

    def _viewed(self) -> None:
        self.answer(self.site.pages["/viewed"], kind="application/xml")

    def _text(self) -> None:
        self.answer("a <b> & c\n", kind="text/plain")

    def _moved(self) -> None:
        self.answer("", 302, Location="/moved-again")

    def _moved_again(self) -> None:
        self.answer("", 301, Location="/two")

    def _enter(self) -> None:
        """Redirect to itself with a cookie, and accept requests that have the cookie."""
        if "entered=yes" in self.headers.get("Cookie", ""):
            self.answer("<h1>Entered</h1>")
        else:
            self.answer("", 302, Location="/enter", Set_Cookie="entered=yes; Path=/; HttpOnly")

    def _set(self) -> None:
        self.answer("", 302, Location="/show", Set_Cookie=f"item={self.path.partition('?')[2]}; Path=/")

    def _show(self) -> None:
        self.answer(f"<h1>{self.headers.get('Cookie', 'nothing')}</h1>")

    def _round(self) -> None:
        self.answer("", 302, Location="/round")

    def _elsewhere(self) -> None:
        self.answer("", 302, Location=self.path.partition("?")[2])

    def _held(self) -> None:
        """Delay a page's load event until its script has reached `/landing`."""
        self.site.landed.wait(90)
        self.answer("", kind="text/javascript")

    def _landing(self) -> None:
        self.site.landed.set()
        self.answer("<h1>Landed</h1>")

    def _download(self) -> None:
        self.answer("x", kind="application/octet-stream", Content_Disposition="attachment; filename=x.bin")

    def _busy(self) -> None:
        first = self.site.requests["/busy"] == 1
        self.answer("<h1>busy</h1>", 503 if first else 200, Retry_After="0")

    def _slow(self) -> None:
        """Answer once two requests run at a time, or after the site's patience."""
        with self._count_request() as number:
            self.site.most_at_once = max(self.site.most_at_once, number)
            if number > 1:
                self.site.two_at_once.set()
            self.site.two_at_once.wait(self.site.patience)
            time.sleep(0.2)
        self.answer("<h1>Slow</h1>")

    def _gather(self) -> None:
        """Answer once five requests run at a time."""
        with self._count_request() as number:
            if number >= 5:
                self.site.five_at_once.set()
            self.site.impatient += not self.site.five_at_once.wait(40)
        self.answer("<h1>Gathered</h1>")

    @contextmanager
    def _count_request(self) -> Generator[int]:
        """Yield how many requests wait for an answer, with this one."""
        with self.site.lock:
            self.site.at_once += 1
            number = self.site.at_once
        yield number
        with self.site.lock:
            self.site.at_once -= 1

    def _silent(self) -> None:
        time.sleep(20)

    def _reset(self) -> None:
        self.close_connection = True

    def _endless(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        for _ in range(100_000):
            self.wfile.write(b"<p>" + b"x" * 65_536)


@contextmanager
def serve_browser_site() -> Generator[BrowserSite]:
    handler = type("Handler", (BrowserSiteHandler,), {})
    with serve(handler) as url:
        handler.site = BrowserSite(url)
        yield handler.site
