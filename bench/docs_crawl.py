"""A real documentation site, crawled over REST: `python -m bench.docs_crawl`.

Serves the HTML of Debian's postgresql-doc-15 by nginx on loopback, queries the rows with SQL and compares them with an
independent walk of the same links. Then measures pages per second on one core for Spindle, Scrapy and a bare loop of
pycurl and lexbor, one after the other, with nginx on another core. Installs nginx and the documentation with apt.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from bench.contenders import install_contender, read_output
from bench.crawlers.fields import CRAWLS
from bench.crawlers.pipeline import build_pipeline
from bench.nginx import install_packages, run_nginx
from bench.service import Json, Service, create_job, describe_machine, post, run_spindle, wait_until_completed

DOCUMENTATION = Path("/usr/share/doc/postgresql-doc-15/html")
ROUNDS = 3


def main() -> None:
    install_packages(*([] if DOCUMENTATION.exists() else ["postgresql-doc-15"]))
    print(describe_machine())
    with run_nginx(DOCUMENTATION) as address:
        site = f"{address}/index.html"
        walked = read_output([sys.executable, "-m", "bench.crawlers.walk", site])
        print(f"independent walk: {walked['rows']} URLs, {walked['found']} found")
        run_over_rest(site, walked)
        measure_on_one_core(site)


def run_over_rest(site: str, walked: Json) -> None:
    with run_spindle({"SPINDLE_FETCH_ALLOW_NETWORKS": "127.0.0.1/32"}) as service:
        job = create_job(service.client, "docs", build_pipeline(CRAWLS["docs"], "  engine: spark\n"))
        for turn in ("first", "second"):
            began = time.perf_counter()
            execution = post(service.client, f"{job}/execute", {"parameters": {"SITE": site}})["executionId"]
            wait_until_completed(service.client, job, execution)
            print(f"{turn} execution through REST: {time.perf_counter() - began:.1f} s")
        compare(service, walked)


def compare(service: Service, walked: Json) -> None:
    counts = query(service, 'SELECT count(*) AS "rows", count_if(_status < 400) AS found FROM docs.docs')[0]
    print(f"rows by SQL: {counts['rows']}, {counts['found']} found: {'agrees' if counts == walked else 'DIFFERS'}")
    for row in query(service, "SELECT _depth AS depth, count(*) AS pages FROM docs.docs GROUP BY 1 ORDER BY 1"):
        print(f"  depth {row['depth']}: {row['pages']} pages")
    if counts != walked:
        raise SystemExit(1)


def query(service: Service, sql: str) -> list[Json]:
    return post(service.client, "/datasets/query", {"sql": sql})["results"]


def measure_on_one_core(site: str) -> None:
    pinned = ["taskset", "-c", "1"]
    contenders = {
        "bare pycurl + lexbor": [*pinned, sys.executable, "-m", "bench.crawlers.bare", "docs", site],
        "Spindle, Spark local[1]": [*pinned, sys.executable, "-m", "bench.crawlers.engine", "docs", site],
        "Scrapy": [*pinned, install_contender("scrapy", "scrapy"), "-m", "bench.crawlers.spider", "docs", site],
    }
    rounds = [{name: read_output(command) for name, command in contenders.items()} for _ in range(ROUNDS)]
    best = {name: min((round_[name] for round_ in rounds), key=lambda result: result["seconds"]) for name in contenders}
    for name, result in best.items():
        print(f"{name:<26}{result['rows']:>6} pages {result['rows'] / result['seconds']:>8.0f} pages/s")
    report_engine(best)


def report_engine(best: dict[str, Json]) -> None:
    engine, seconds = best["Spindle, Spark local[1]"], {name: result["seconds"] for name, result in best.items()}
    print(f"Spindle's first pass: {engine['passes'][0]:.1f} s, session before it: {engine['session']:.1f} s")
    for name in ("Scrapy", "bare pycurl + lexbor"):
        print(f"Spindle / {name}: {seconds[name] / seconds['Spindle, Spark local[1]']:.2f}")


if __name__ == "__main__":
    main()
