"""Product images by EAN: `python -m bench.images [EANS]`, and `python -m bench.images similarity [IMAGES]`.

The first uploads a CSV file of a million EANs to a service, finds images of some EANs on local servers with 50 ms per
search and ten results of an EAN, and measures `images` for 100 EANs. The second scores images with imageSimilarity
alone, and samples the memory of its process.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil

from bench.service import Service, compute_percentiles, describe_machine, post, run_spindle, wait_until_completed
from tests.plugins.ean_image_sourcing.products import make_ean, serve_products
from tests.support.search_engines import ENGINE, KEY, SearchServer, serve_search
from tests.support.site import serve_site

RESULTS, SEARCH_SECONDS, LISTED, ROUNDS, UPLOADED = 10, 0.05, 100, 20, 1_000_000
BASE = "/ean-image-sourcing"
COUNTS = "SELECT count(*) AS found, count(image_sha256) AS usable FROM output"
SIMILARITY = """
pipeline:
  - {stage: load_csv, args: ["images.csv"]}
  - {stage: imageSimilarity, args: [{image_field: image_url, ean_field: ean, keep: true}]}
output: {format: parquet, path: scored}
"""


def measure_service(number: int) -> None:
    settings = {"SPINDLE_FETCH_ALLOW_NETWORKS": "127.0.0.0/8", "SPINDLE_SPARE_DRIVERS": "0"}
    eans = [make_ean(each) for each in range(number)]
    with serve_site() as site, serve_search() as search, run_spindle(settings) as service:
        search.delay = SEARCH_SECONDS
        serve_products(site, search, eans, RESULTS)
        fields = {"name": "google", "provider": "GOOGLE_SEARCH", "apiKey": KEY, "engineId": ENGINE}
        post(service.client, "/cloud-credentials", fields | {"endpoint": search.url})
        measure_upload(service)
        upload(service, "france", eans)
        find_images(service, number)
        measure_listing(service, "images", eans, {})
        measure_listing(service, "images with 3 thumbnails each", eans, {"limit": 3, "includeThumbnails": True})


def measure_upload(service: Service) -> None:
    children = psutil.Process(service.process.pid).children(recursive=True)
    api = next(each for each in children if each.cmdline()[:2] == ["spindle", "api"])
    before, began = read_peak(api.pid), time.perf_counter()
    rows = upload(service, "large", (make_ean(each) for each in range(UPLOADED)))
    seconds = time.perf_counter() - began
    print(f"upload of {rows:,} EANs: {seconds:.1f} s, peak of the API {before} MiB before, {read_peak(api.pid)} after")


def read_peak(pid: int) -> int:
    """Return the largest resident memory that a process has had, in MiB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) // 1024


def upload(service: Service, country: str, eans: Iterable[str]) -> int:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "eans.csv"
        with path.open("w") as file:
            file.write("ean\n")
            file.writelines(f"{ean}\n" for ean in eans)
        with path.open("rb") as file:
            answer = service.client.post(f"{BASE}/{country}/upload", files={"file": file}, timeout=600)
    answer.raise_for_status()
    return answer.json()["rowCount"]


def find_images(service: Service, number: int) -> None:
    began = time.perf_counter()
    execution = post(service.client, f"{BASE}/france/execute", {})["executionId"]
    status = service.client.get(f"{BASE}/france/status").json()
    job = f"/projects/id/{status['projectId']}/jobs/{status['latestJobId']}"
    wait_until_completed(service.client, job, execution, 0.5)
    seconds = time.perf_counter() - began
    usage = service.client.get(f"{job}/executions/{execution}/metrics").json()["metrics"]["infrastructure"]
    (counts,) = post(service.client, f"{BASE}/france/query", {"sql": COUNTS})["results"]
    print(f"{number:,} EANs, {counts['found']:,} rows, {counts['usable']:,} usable images: {seconds:.0f} s")
    print(f"{number / seconds * 60:.0f} EANs per minute, {number / usage['cpuSeconds'] * 60:.0f} per minute and core")


def measure_listing(service: Service, name: str, eans: list[str], more: Mapping[str, object]) -> None:
    seconds: list[float] = []
    for each in range(ROUNDS):
        start = each * LISTED % max(len(eans) - LISTED, 1)
        began = time.perf_counter()
        post(service.client, f"{BASE}/france/images", {"eans": eans[start : start + LISTED], **more})
        seconds.append(time.perf_counter() - began)
    middle, high = compute_percentiles(seconds)
    print(f"{name} of {LISTED} EANs: median {middle * 1000:.0f} ms, p95 {high * 1000:.0f} ms")


def measure_similarity(images: int) -> None:
    """Score the images in a process of its own, and print its resident memory at each tenth."""
    eans = [make_ean(each) for each in range(images // RESULTS)]
    search = SearchServer()
    with serve_site() as site, TemporaryDirectory() as name:
        folder = Path(name)
        serve_products(site, search, eans, RESULTS)
        lines = [f"{ean},{result[3]}" for ean in eans for result in search.results[ean]]
        (folder / "images.csv").write_text("\n".join(["ean,image_url", *lines]))
        (folder / "pipeline.yaml").write_text(SIMILARITY)
        began = time.perf_counter()
        environment = {**os.environ, "SPINDLE_FETCH_ALLOW_NETWORKS": "127.0.0.0/8"}
        command = [Path(sys.executable).with_name("spindle"), "run", "pipeline.yaml"]
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL)
        shown = 0
        while process.poll() is None:
            done = len(site.request_times) * 10 // images
            if done > shown:
                shown, resident = done, psutil.Process(process.pid).memory_info().rss // 2**20
                print(f"{len(site.request_times):,} images: {time.perf_counter() - began:.0f} s, {resident} MiB")
            time.sleep(0.2)
        print(f"{images:,} images: {time.perf_counter() - began:.0f} s, exit code {process.returncode}")


if __name__ == "__main__":
    print(describe_machine())
    if sys.argv[1:2] == ["similarity"]:
        measure_similarity(int(sys.argv[2]) if len(sys.argv) > 2 else 100_000)
    else:
        measure_service(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000)
