"""Plain Playwright: one page visits all URLs in turn. `python -m bench.visitors.loop SITE PAGES CHROMIUM`."""

from __future__ import annotations

import json
import sys
import time

from playwright.sync_api import sync_playwright
from selectolax.lexbor import LexborHTMLParser

from bench.visitors.fields import CHROMIUM_FLAGS, FIELDS, list_addresses


def main() -> None:
    site, pages, chromium = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    began, rows = time.perf_counter(), []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=CHROMIUM_FLAGS)
        page = browser.new_page()
        started = time.perf_counter() - began
        for address in list_addresses(site, pages):
            page.goto(address)
            read = LexborHTMLParser(page.content())
            found = {name: read.css_first(selector) for name, selector in FIELDS.items()}
            rows.append({name: node.text() if node else None for name, node in found.items()})
        seconds = time.perf_counter() - began - started
        browser.close()
    made = sum(row["made"] is not None for row in rows)
    print(json.dumps({"rows": made, "start": started, "seconds": seconds}))


if __name__ == "__main__":
    main()
