"""Pages rendered by the browser: `python -m bench.browser [PAGES]`.

A local site whose pages a script completes, visited by visitJoin on Spark local[2] (four tabs in two browsers), by
plain Playwright in a loop, and by Crawlee's browser crawler with four tabs; the same Chromium, one after the other.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.contenders import install_contender, read_output
from bench.nginx import install_packages, run_nginx
from bench.service import Json, describe_machine
from bench.sites import TEMPLATES, build_page
from bench.visitors.fields import TABS, list_addresses
from pipelines.browser.model import BrowserOptions

PAGES = 400
SIZE = 20_000
ROUNDS = 2
SCRIPT = """\
document.addEventListener('DOMContentLoaded', () => {
  const list = document.createElement('ul');
  list.id = 'made';
  for (const link of document.querySelectorAll('div.text a')) {
    const item = document.createElement('li');
    item.textContent = link.parentElement.textContent.split(' ').reverse().join(' ');
    list.append(item);
  }
  document.body.append(list);
});
"""
HEAD = '<script src="/app.js"></script><link rel="stylesheet" href="/app.css"><link rel="icon" href="data:,">'


def main() -> None:
    pages = int(sys.argv[1]) if len(sys.argv) > 1 else PAGES
    install_packages()
    chromium = BrowserOptions().find_executable()
    crawlee = install_contender("crawlee-browser", "crawlee[playwright]", "selectolax")
    print(describe_machine())
    with serve_site(pages) as address:
        contenders = {
            "Spindle, visitJoin on local[2]": [sys.executable, "-m", "bench.visitors.engine", address, pages, TABS],
            "Playwright in a loop": [sys.executable, "-m", "bench.visitors.loop", address, pages, chromium],
            "Crawlee's browser crawler": [crawlee, "-m", "bench.visitors.crawlee_browser", address, pages, chromium],
        }
        rounds = [{name: read_output([*map(str, each)]) for name, each in contenders.items()} for _ in range(ROUNDS)]
    report(pages, {name: min((each[name] for each in rounds), key=lambda made: made["seconds"]) for name in contenders})


@contextmanager
def serve_site(pages: int) -> Generator[str]:
    """Serve a front page with links to `pages` others, which a script completes."""
    with TemporaryDirectory() as folder:
        root = Path(folder)
        root.chmod(0o755)
        (root / "app.js").write_text(SCRIPT)
        (root / "app.css").write_text("li { margin: 0 1em } #made { columns: 3 }")
        for number in range(TEMPLATES):
            (root / f"{number}.html").write_text(build_page(number, SIZE).replace("</head>", f"{HEAD}</head>"))
        links = "".join(f'<li class="item"><a href="{url}">page</a></li>' for url in list_addresses("", pages))
        (root / "index.html").write_text(f"<!doctype html><h1>All</h1><ul>{links}</ul>")
        with run_nginx(root, "rewrite ^/page/[0-9]+/([0-9]+.html)$ /$1 last;") as address:
            yield address


def report(pages: int, best: dict[str, Json]) -> None:
    for name, result in best.items():
        if result["rows"] != pages:
            raise SystemExit(f"{name} read {result['rows']} of {pages} pages")
        print(f"{name:<32}{pages / result['seconds']:>8.1f} pages/s")
    ours, *others = best
    print(f"our first pass: {best[ours]['cold']:.1f} s, session before it: {best[ours]['session']:.1f} s")
    for name in others:
        print(f"Spindle / {name}: {best[name]['seconds'] / best[ours]['seconds']:.2f}")


if __name__ == "__main__":
    main()
