"""A local run leaves its process as it was, ends when it is interrupted, and alone holds any number of pages."""

from __future__ import annotations

import gc
import os
import signal
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from pipelines.contract.context import RunContext
from pipelines.engine.frontier import FoundLink, Frontier
from pipelines.engine.options import make_cache_options, make_fetch_options
from pipelines.engine.partial_run import GrownOver
from pipelines.engine.run import Run
from pipelines.errors import NeedsSpark
from pipelines.extract.rows import Row
from pipelines.language.engines import Growth
from pipelines.local.runner import LocalRunner
from pipelines.pipeline import Pipeline
from pipelines.planning.plan import Plan
from tests.support.service import PATIENCE_SECONDS, wait_until
from tests.support.site import Site

JOIN = """
fetch: {{url: '{base}/'}}
pipeline:
- {{stage: wgetJoin, args: [a]}}
- {{stage: extract, args: [{{selector: h1, as: title}}]}}
spindle: {{timeout: 3600}}
"""
EXPLORE = JOIN.replace("wgetJoin, args: [a]", "wgetExplore, args: [a, 3]")
PAGES = {"/": "<a href=/1>1</a><a href=/2>2</a><a href=/3>3</a>"} | {
    f"/{number}": f"<h1>{number}</h1><a href=/{number + 1}>next</a>" for number in range(1, 8)
}


def build_context(plan: Plan) -> RunContext:
    fetch = make_fetch_options(plan.options, ("127.0.0.0/8",))
    context = RunContext(fetch=fetch)
    return replace(context, cache=make_cache_options(plan.options, context.cache))


@pytest.mark.parametrize("growth", [None, Growth(pages=1)])
def test_a_run_leaves_its_process_as_it_was(growth: Growth | None, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_KEY", "before")
    plan = Pipeline.from_yaml(EXPLORE.format(base=site.serve(PAGES))).plan()
    variables, thresholds = dict(os.environ), gc.get_threshold()
    handlers = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    secrets = {"SHOP_KEY": "during", "SHOP_TOKEN": "wertvoll"}
    with Run(plan, build_context(plan), environment=secrets) as run:
        try:
            LocalRunner(run, growth).collect()
        except GrownOver:
            assert growth is not None
        assert (dict(os.environ), gc.get_threshold()) == (variables, thresholds)
        assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)] == handlers


@pytest.mark.parametrize("text", [JOIN, EXPLORE])
@pytest.mark.parametrize("held", ["/", "/2", "/3"])
def test_an_interrupt_ends_a_run_while_pages_are_in_flight(text: str, held: str, site: Site) -> None:
    plan = Pipeline.from_yaml(text.format(base=site.serve(PAGES))).plan()
    site.hold({held})

    def interrupt() -> None:
        wait_until(lambda: site.requests[held], PATIENCE_SECONDS)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    with pytest.raises(KeyboardInterrupt), Run(plan, build_context(plan)) as run:  # noqa: PT012
        thread.start()
        LocalRunner(run).collect()
    assert site.running, "the page has not been answered"
    thread.join()
    site.hold(())


def test_a_file_that_only_spark_reads_is_said_before_any_page_is_requested(site: Site, tmp_path: Path) -> None:
    (tmp_path / "quoted.csv").write_text(f'page\n"{site.serve(PAGES)}/""1"\n')
    text = f"pipeline:\n- {{stage: load_csv, args: ['{tmp_path}/quoted.csv']}}\n- {{stage: wget, args: [$page]}}\n"
    plan = Pipeline.from_yaml(text).plan()
    with Run(plan, build_context(plan)) as run, pytest.raises(NeedsSpark, match="line 2: load_csv") as error:
        LocalRunner(run).collect()
    assert error.value.line == 2
    assert site.requests == {}


def test_a_frontier_without_a_limit_holds_more_pages_than_tasks_hand_over() -> None:
    frontier, number = Frontier(None), 120_000
    for level in (1, 2):
        for page in range(number):
            assert not [*frontier.add(FoundLink(Row({}, (level, page)), f"http://shop.test/{level}/{page}", level))]
        assert len(frontier.take_level()) == number
    assert not [*frontier.add(FoundLink(Row({}, (3, 0)), "http://shop.test/1/0", 3))]
    assert frontier.take_level() == []


NESTED = """
fetch: {{url: '{base}/'}}
pipeline:
- {{stage: wgetJoin, args: [a]}}
- {{stage: flatSelect, args: [li, {{{extractor}, as: text}}]}}
spindle: {{keepColumns: [_error], maxFailureRatio: 1}}
"""


WHOLE = 'selector: ":root", method: text'


@pytest.mark.parametrize(("extractor", "flat"), [(WHOLE, "a b"), (f"{WHOLE}, all: true", ["a b"])])
def test_a_page_makes_rows_of_a_bounded_size(
    site: Site, monkeypatch: pytest.MonkeyPatch, extractor: str, flat: object
) -> None:
    monkeypatch.setattr("pipelines.engine.stage_chain.MAX_PAGE_ROWS", 1000)
    item = "x" * 40
    pages = {"/": "<a href=/deep>1</a><a href=/flat>2</a>", "/deep": f"<li>{item}" * 50, "/flat": "<li>a<li>b"}
    plan = Pipeline.from_yaml(NESTED.format(base=site.serve(pages), extractor=extractor)).plan()
    with Run(plan, build_context(plan)) as run:
        rows = LocalRunner(run).collect().to_pylist()
        (errors,) = {counts.errors for key, counts in run.get_counts().items() if "flat" in key.lower()}
    assert errors == 1
    assert [row["text"] for row in rows[-2:]] == [flat] * 2, "other pages are complete"
    failed = rows[-3]
    assert (failed["text"], "the rest is left out" in failed["_error"]) == (None, True)
    assert 1 < len(rows) < 40
