"""Forks of a process without Spark: as many at once as the machine bears, in turn, beside executions with Spark."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from core.infra.settings import Settings
from orchestration.compute.capacity import count_working
from orchestration.compute.local import LocalCompute
from orchestration.compute.protocol import DriverSource, Launch
from pipelines.contract.request import RunRequest
from pipelines.language.engines import EngineName
from tests.support.forks import keep_forks
from tests.support.service import PATIENCE_SECONDS, wait_until
from tests.support.site import GatedSite, Site
from tests.support.spares import launch, make_spec

CRAWL = "{fetch: {url: '%s'}, pipeline: [{stage: extract, args: [{selector: a, method: text, as: a}]}]}"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / "data").mkdir()
    return Settings(data=tmp_path / "data", local_drivers=1, spark_drivers=1, spare_drivers=0)


@pytest.fixture
def compute(settings: Settings) -> Iterator[LocalCompute]:
    compute = LocalCompute(settings)
    with keep_forks(compute):
        yield compute


def make(settings: Settings, name: str, site: GatedSite, begins_with_spark: bool = False) -> RunRequest:
    return make_spec(settings, name, CRAWL % site.url, begins_with_spark=begins_with_spark)


@pytest.mark.long
def test_forks_wait_for_a_place_in_turn(compute: LocalCompute, settings: Settings, site: GatedSite) -> None:
    found = list[Launch | None]()
    busy = launch(compute, make(settings, "busy", site), {})
    site.wait_for_visitor()
    assert compute.launch(make(settings, "cancelled", site), {}, None, lambda _: False) is None
    waiting = make(settings, "waiting", site)
    thread = threading.Thread(target=lambda: found.append(compute.launch(waiting, {})))
    thread.start()
    wait_until(lambda: compute.queues[EngineName.LOCAL].list_waiting(-1), PATIENCE_SECONDS)
    assert compute.list() == [busy]
    site.open()
    thread.join()
    (launched,) = found
    assert launched.source is DriverSource.FORK
    assert launched.waited_seconds > 0
    assert not compute.observe(busy).running
    wait_until(lambda: not compute.observe(launched.handle).running, PATIENCE_SECONDS)
    assert pq.read_table(waiting.output.path).num_rows == 1
    assert not compute.queues[EngineName.LOCAL].list_waiting(-1)


def test_an_execution_with_spark_that_waits_holds_no_fork_up(
    compute: LocalCompute, settings: Settings, site: GatedSite
) -> None:
    found, ended = list[Launch | None](), threading.Event()
    busy = launch(compute, make(settings, "busy", site, begins_with_spark=True), {})
    waiting = make(settings, "waiting", site, begins_with_spark=True)
    thread = threading.Thread(
        target=lambda: found.append(compute.launch(waiting, {}, None, lambda seconds: not ended.wait(seconds)))
    )
    thread.start()
    wait_until(lambda: compute.queues[EngineName.SPARK].list_waiting(-1), PATIENCE_SECONDS)
    fork = compute.launch(make(settings, "fork", site), {}, None, lambda _: False)
    assert fork.source is DriverSource.FORK
    ended.set()
    thread.join()
    assert found == [None]
    for handle in (busy, fork.handle):
        compute.cancel(handle)
    wait_until(lambda: not compute.list(), PATIENCE_SECONDS)


@pytest.mark.long
def test_a_fork_that_goes_on_with_spark_counts_as_a_driver_with_spark(
    compute: LocalCompute, settings: Settings, web: Site
) -> None:
    base = web.serve({"/": "".join(f"<a href=/{each}>{each}</a>" for each in range(9))})
    text = f"{{fetch: {{url: '{base}/'}}, pipeline: [{{stage: wgetJoin, args: [a]}}]}}"
    spec = make_spec(settings, "grows", text, begins_with_spark=False, growth={"pages": 5})
    handle = launch(compute, spec, {})
    wait_until(lambda: count_working(settings.data, EngineName.SPARK) == 1, PATIENCE_SECONDS)
    assert count_working(settings.data, EngineName.LOCAL) == 0
    wait_until(lambda: not compute.observe(handle).running, PATIENCE_SECONDS)
    assert pq.read_table(spec.output.path).num_rows == 9
