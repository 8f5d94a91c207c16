"""A documentation site that nobody here wrote, crawled whole through the REST interface: `python -m bench.docs_crawl`.

Installs (apt) and starts nginx on loopback with the HTML of Debian's postgresql-doc-15, compares the rows with an
independent walk of the same link graph, asks for them by SQL, and measures pages per second on one core beside Scrapy
and a bare loop of pycurl and lexbor: each contender pinned to one core, nginx to another, one after the other.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.crawlers.pipeline import PIPELINE
from bench.service import CLONE, SCRATCH, Json, Service, completed, free_port, machine, make_job, post, spindle

DOCUMENTATION = Path("/usr/share/doc/postgresql-doc-15/html")
ROUNDS = 3
NGINX = """\
daemon off; worker_processes 1; pid {folder}/pid; error_log {folder}/error.log;
events {{ worker_connections 512; }}
http {{
  access_log off; types {{ text/html html; text/css css; image/svg+xml svg; }} keepalive_requests 100000;
  client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder};
  uwsgi_temp_path {folder}; scgi_temp_path {folder};
  server {{ listen 127.0.0.1:{port}; root {root}; }}
}}
"""


def main() -> None:
    install()
    print(machine())
    with nginx() as site:
        walked = output_of([sys.executable, "-m", "bench.crawlers.walk", site])
        print(f"independent walk: {walked['rows']} URLs, {walked['found']} found")
        through_rest(site, walked)
        on_one_core(site)


def install() -> None:
    if not DOCUMENTATION.exists() or not shutil.which("nginx", path="/usr/sbin:/usr/bin"):
        as_root = [] if os.geteuid() == 0 else ["sudo"]
        subprocess.run([*as_root, "apt-get", "install", "-y", "-qq", "nginx-light", "postgresql-doc-15"], check=True)
    if not (SCRATCH / "scrapy/bin/scrapy").exists():
        subprocess.run(["uv", "venv", "-q", "--python", sys.executable, SCRATCH / "scrapy"], check=True)
        subprocess.run(["uv", "pip", "install", "-q", "--python", SCRATCH / "scrapy", "scrapy"], check=True)


@contextmanager
def nginx() -> Generator[str]:
    """The documentation on the first core, on loopback; yields the address of its front page."""
    with tempfile.TemporaryDirectory() as folder:
        port, configuration = free_port(), Path(folder) / "nginx.conf"
        configuration.write_text(NGINX.format(folder=folder, port=port, root=DOCUMENTATION))
        process = subprocess.Popen(
            ["taskset", "-c", "0", "/usr/sbin/nginx", "-c", configuration, "-e", f"{folder}/log"]
        )
        time.sleep(1)
        try:
            yield f"http://127.0.0.1:{port}/index.html"
        finally:
            process.terminate()
            process.wait(30)


def through_rest(site: str, walked: Json) -> None:
    with spindle({"SPINDLE_FETCH_ALLOW_NETWORKS": "127.0.0.1/32"}) as service:
        job = make_job(service.client, "docs", PIPELINE)
        for turn in ("first", "second"):
            began = time.perf_counter()
            execution = post(service.client, f"{job}/execute", {"parameters": {"SITE": site}})["executionId"]
            completed(service.client, job, execution)
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


def on_one_core(site: str) -> None:
    pinned = ["taskset", "-c", "1"]
    contenders = {
        "bare pycurl + lexbor": [*pinned, sys.executable, "-m", "bench.crawlers.bare", site],
        "Spindle, Spark local[1]": [*pinned, sys.executable, "-m", "bench.crawlers.engine", site],
        "Scrapy": [*pinned, str(SCRATCH / "scrapy/bin/python"), "bench/crawlers/spider.py", site],
    }
    rounds = [{name: output_of(command) for name, command in contenders.items()} for _ in range(ROUNDS)]
    best = {name: min((round_[name] for round_ in rounds), key=lambda result: result["seconds"]) for name in contenders}
    for name, result in best.items():
        print(f"{name:<26}{result['rows']:>6} pages {result['rows'] / result['seconds']:>8.0f} pages/s")
    report_engine(best)


def report_engine(best: dict[str, Json]) -> None:
    engine, seconds = best["Spindle, Spark local[1]"], {name: result["seconds"] for name, result in best.items()}
    print(f"Spindle's first pass: {engine['cold']['seconds']:.1f} s, session before it: {engine['session']:.1f} s")
    for name in ("Scrapy", "bare pycurl + lexbor"):
        print(f"Spindle / {name}: {seconds[name] / seconds['Spindle, Spark local[1]']:.2f}")


def output_of(command: Sequence[str]) -> Json:
    """The last line that the command prints, as JSON."""
    done = subprocess.run(command, cwd=CLONE, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    main()
