"""The floor: one loop of pycurl's multi interface and lexbor, nothing else. `python -m bench.crawlers.bare URL`."""

from __future__ import annotations

import io
import json
import sys
import time
from collections import deque
from urllib.parse import urldefrag, urljoin

import pycurl
from selectolax.lexbor import LexborHTMLParser

from bench.crawlers.fields import CONCURRENCY, FIELDS, LINKS


def crawl(seed: str) -> list[dict[str, str | None]]:
    multi, waiting, seen = pycurl.CurlMulti(), deque([seed]), {seed}
    idle = [pycurl.Curl() for _ in range(CONCURRENCY)]
    rows: list[dict[str, str | None]] = []
    while waiting or len(idle) < CONCURRENCY:
        while waiting and idle:
            multi.add_handle(_started(idle.pop(), waiting.popleft()))
        multi.perform()
        multi.select(0.2)
        for handle in multi.info_read(CONCURRENCY)[1]:
            multi.remove_handle(handle)
            idle.append(handle)
            row, links = _parsed(handle)
            rows.append(row)
            fresh = dict.fromkeys(link for link in links if link not in seen)
            seen.update(fresh)
            waiting.extend(fresh)
    return rows


def _started(handle: pycurl.Curl, url: str) -> pycurl.Curl:
    handle.url, handle.body = url, io.BytesIO()
    handle.setopt(pycurl.URL, url)
    handle.setopt(pycurl.WRITEDATA, handle.body)
    return handle


def _parsed(handle: pycurl.Curl) -> tuple[dict[str, str | None], list[str]]:
    if handle.getinfo(pycurl.RESPONSE_CODE) >= 400:
        return dict.fromkeys(FIELDS), []
    page = LexborHTMLParser(handle.body.getvalue())
    found = {name: page.css_first(selector) for name, selector in FIELDS.items()}
    row = {name: node.text() if node else None for name, node in found.items()}
    links = [urldefrag(urljoin(handle.url, node.attributes["href"] or ""))[0] for node in page.css(LINKS)]
    return row, links


def main() -> None:
    began = time.perf_counter()
    rows = crawl(sys.argv[1])
    print(json.dumps({"rows": len(rows), "seconds": time.perf_counter() - began}))


if __name__ == "__main__":
    main()
