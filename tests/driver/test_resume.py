"""A crawl that was killed goes on where it stood."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.support.driver import await_end, driver, spec
from tests.support.processes import descendants
from tests.support.service import wait_until
from tests.support.site import Site

LINKS = "".join(f"<a href=/{each}>{each}</a>" for each in range(12))
PAGES = {"/": LINKS} | {f"/{each}": f"<h1>{each}</h1><a href=/x{each}>x</a>" for each in range(12)}
PAGES |= {f"/x{each}": f"<h1>x{each}</h1>" for each in range(12)}
EXPLORE = """
fetch: {url: "${BASE}/"}
pipeline:
  - {stage: wgetExplore, args: [a, 2]}
  - {stage: extract, args: [{selector: h1, as: title}]}
spindle: {concurrency: 4}
"""


JOINS = EXPLORE.replace("wgetExplore, args: [a, 2]}", "wgetJoin, args: [a]}\n  - {stage: wgetJoin, args: [a]}")


@pytest.mark.long
@pytest.mark.parametrize("pipeline", [EXPLORE, JOINS])
@pytest.mark.parametrize(
    ("held", "requested", "finished"),
    [({"/3", "/6", "/9"}, 7, ("/",)), ({"/x3", "/x6", "/x9"}, 19, ("/", *(f"/{each}" for each in range(12))))],
    ids=["first level", "second level"],
)
def test_a_killed_crawl_is_resumed_from_its_pages(
    pipeline: str, held: set[str], requested: int, finished: tuple[str, ...], tmp_path: Path, site: Site
) -> None:
    base = site.serve(PAGES)
    site.delay = 0.1
    site.hold(held)  # fewer than are asked for at a time: the level does not end before the kill

    begun = datetime.now(UTC).isoformat()

    def execution(attempt: int) -> dict[str, Any]:
        pages = {"folder": str(tmp_path / "pages"), "keepSeconds": 86400, "maxBytes": 10**9, "trustedSince": begun}
        output = {"path": str(tmp_path / f"out{attempt}")}
        return spec(
            tmp_path,
            None,
            pipelineYaml=pipeline,
            parameters={"BASE": base},
            pages=pages,
            output=output,
            attempt=attempt,
        )

    with driver(tmp_path, execution(1)) as process:
        wait_until(lambda: len(site.requests) >= requested or process.poll() is not None, 200)
        assert process.poll() is None, "the driver ended before it was killed"
        time.sleep(2)  # a process loses the pages of its last second
        workers = descendants(process.pid)
        process.kill()
        process.wait()
        await_end(workers)
    site.hold(())
    with driver(tmp_path, execution(2)) as process:
        _, log = process.communicate(timeout=300)
        assert process.returncode == 0, log

    assert sorted(site.requests) == sorted(PAGES)
    # the pages of the level that was killed may have been in flight
    assert max(site.requests.values()) <= 2
    assert all(site.requests[path] == 1 for path in finished)
    titles = pq.read_table(tmp_path / "out2").column("title").to_pylist()
    expected = [f"x{each}" for each in range(12)]
    if pipeline is EXPLORE:
        expected += [None, *map(str, range(12))]
    assert sorted(titles, key=str) == sorted(expected, key=str)
