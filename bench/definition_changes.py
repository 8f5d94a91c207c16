"""Seconds until a change over REST is visible in Dagster's UI: `python -m bench.definition_changes [CHANGES]`."""

from __future__ import annotations

import sys
import time

import httpx

from bench.service import compute_percentiles, create_job, describe_machine, run_spindle

PIPELINE = "fetch: {url: 'http://shop/'}\npipeline:\n  - {stage: extract, args: [{selector: h1, as: title}]}\n"
QUERY = "{ assetNodes { description } }"
POLL_SECONDS = 0.1


def main() -> None:
    changes = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    print(describe_machine())
    with run_spindle({"SPINDLE_SPARE_DRIVERS": "0"}) as service:
        job = create_job(service.client, "job", PIPELINE)
        wait_until_visible(service.ui_url, "job")
        seconds: list[float] = []
        for number in range(changes):
            time.sleep(number % 7 * 0.3)  # at every phase of the polls
            name = f"renamed {number}"
            began = time.perf_counter()
            service.client.put(job, json={"name": name}).raise_for_status()
            wait_until_visible(service.ui_url, name)
            seconds.append(time.perf_counter() - began)
    p50, p95 = compute_percentiles(seconds)
    print(f"{changes} changes are visible after p50 {p50:.1f} s, p95 {p95:.1f} s, largest {max(seconds):.1f} s")


def wait_until_visible(ui_url: str, name: str) -> None:
    while True:
        answer = httpx.post(f"{ui_url}/graphql", json={"query": QUERY}, timeout=60).raise_for_status().json()
        if any(name in (node["description"] or "") for node in answer["data"]["assetNodes"]):
            return
        time.sleep(POLL_SECONDS)


if __name__ == "__main__":
    main()
