"""The lower bound: pycurl's multi interface and lexbor in one loop: `python -m bench.crawlers.bare CRAWL URL`."""

from __future__ import annotations

import io
import json
import sys
import time
from collections import deque

import pycurl

from bench.crawlers.fields import CONCURRENCY, CRAWLS, Crawl
from bench.crawlers.lexbor import Row, parse_page


def run(crawl: Crawl, seed: str) -> list[Row]:
    multi, waiting, seen = pycurl.CurlMulti(), deque([seed]), {seed}
    idle = [pycurl.Curl() for _ in range(CONCURRENCY)]
    rows: list[Row] = []
    while waiting or len(idle) < CONCURRENCY:
        while waiting and idle:
            multi.add_handle(_start_transfer(idle.pop(), waiting.popleft()))
        multi.perform()
        multi.select(0.2)
        for handle in multi.info_read(CONCURRENCY)[1]:
            multi.remove_handle(handle)
            idle.append(handle)
            found = handle.getinfo(pycurl.RESPONSE_CODE) < 400
            row, links = parse_page(crawl, handle.url, handle.body.getvalue() if found else b"", handle.url == seed)
            rows.append(row)
            fresh = dict.fromkeys(link for link in links if link not in seen)
            seen.update(fresh)
            waiting.extend(fresh)
    return rows


def _start_transfer(handle: pycurl.Curl, url: str) -> pycurl.Curl:
    handle.url, handle.body = url, io.BytesIO()
    handle.setopt(pycurl.URL, url)
    handle.setopt(pycurl.WRITEDATA, handle.body)
    return handle


def main() -> None:
    began = time.perf_counter()
    rows = run(CRAWLS[sys.argv[1]], sys.argv[2])
    print(json.dumps({"rows": len(rows), "seconds": time.perf_counter() - began}))


if __name__ == "__main__":
    main()
