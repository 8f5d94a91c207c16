"""Drift of prompted columns, as figures: `python -m bench.drift [RUNS]`.

Ten templates of tests/support/catalogues.py with 200 pages a run, read by proven selectors without a model. RUNS runs
without a change, each on other pages of the site: how many tell drift. Then each of eight kinds of change, on all pages
and from the middle on: how many are told, or read right by another selector.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from shutil import copytree, rmtree
from tempfile import TemporaryDirectory
from typing import Any

from bench.service import describe_machine
from pipelines.contract.context import RunContext
from pipelines.engine.options import make_fetch_options
from pipelines.engine.run import Run
from pipelines.local.runner import LocalRunner
from pipelines.pipeline import Pipeline
from tests.support.catalogues import CATALOGUES, CHANGES, Catalogue, CataloguePage, list_links
from tests.support.models import KEY, ModelServer, answer_truth, serve_model
from tests.support.site import Site, serve_site

PAGES, RUNS, LATER_RUNS = 200, 1_000, 9
TEXT = """
fetch: {{url: '${{B}}/'}}
pipeline:
- {{stage: wgetJoin, args: [ul.list a]}}
- {{stage: iextract, args: ['Extract: {columns}']}}
spindle: {{keepColumns: [_error, _url], cache: 0}}
"""


class CatalogueRuns:
    """Runs over the pages of one template, with one folder of proven selectors."""

    def __init__(self, name: str, seed: int, site: Site, server: ModelServer, folder: str) -> None:
        self.catalogue: Catalogue = CATALOGUES[name]
        self._name, self._seed, self._site, self._server = name, seed, site, server
        self.folder = folder

    def draw(self, run: int) -> list[CataloguePage]:
        """Draw the pages of a run: half of them are those of the run before."""
        pages = self.catalogue.draw(self._name, PAGES, self._seed, run * PAGES // 2)
        random.Random(run).shuffle(pages)
        return pages

    def crawl(self, pages: Sequence[CataloguePage], served: Sequence[str] = (), *, proves: bool = False) -> Any:
        """Crawl the pages; return the rows by path, and the sentences about drift."""
        if proves:
            self._server.rule = answer_truth({str(page.values["title"]): page.values for page in pages})
        environment = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": self._server.url} if proves else {}
        bodies = served or [page.html for page in pages]
        content = {page.path: body for page, body in zip(pages, bodies, strict=True)}
        base = self._site.serve({"/": list_links(pages), **content})
        columns = ", ".join(["title", *self.catalogue.columns])
        plan = Pipeline.from_yaml(TEXT.format(columns=columns)).plan({"B": base})
        context = RunContext(fetch=make_fetch_options(plan.options, ("127.0.0.0/8",)), selectors=self.folder)
        with TemporaryDirectory() as output, Run(plan, context, PAGES, environment) as run:
            rows = LocalRunner(run).write(f"{output}/rows").preview
            return {str(row["_url"]).removeprefix(base): row for row in rows}, [str(each) for each in run.list_drift()]


def main() -> None:
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else RUNS
    print(describe_machine())
    with ExitStack() as stack:
        server = stack.enter_context(serve_model())
        site, folder = stack.enter_context(serve_site()), stack.enter_context(TemporaryDirectory())
        count_false_alarms(wanted, site, server, folder)
        count_told(site, server, folder)


def count_false_alarms(wanted: int, site: Site, server: ModelServer, folder: str) -> None:
    """Print how many runs without a change tell drift."""
    began, runs, alarms, seed = time.monotonic(), 0, 0, 0
    while runs < wanted:
        seed += 1
        for name in CATALOGUES:
            crawls = CatalogueRuns(name, seed, site, server, f"{folder}/{name}-{seed}")
            for number in range(1 + LATER_RUNS):
                _, drift = crawls.crawl(crawls.draw(number), proves=number == 0)
                runs += 1
                alarms += bool(drift)
                for sentence in drift:
                    print(f"FALSE ALARM in run {number} of {name}, seed {seed}: {sentence}")
    print(f"{runs:,} runs without a change: {alarms} false alarms, {time.monotonic() - began:,.0f} s")


def count_told(site: Site, server: ModelServer, folder: str) -> None:
    """Print how many changes are told after one complete run."""
    told, silent = 0, 0
    for name in CATALOGUES:
        crawls = CatalogueRuns(name, 0, site, server, f"{folder}/{name}")
        crawls.crawl(crawls.draw(0), proves=True)
        kept = crawls.folder + "-kept"
        copytree(crawls.folder, kept)
        for change, (kind, edit) in CHANGES.items():
            field = {"few": crawls.catalogue.few, "number": crawls.catalogue.number}.get(kind, kind)
            for unchanged in (0, PAGES // 2):
                rmtree(crawls.folder)
                copytree(kept, crawls.folder)
                pages = crawls.draw(1)
                served = [page.html if at < unchanged else edit(page.html, field) for at, page in enumerate(pages)]
                rows, drift = crawls.crawl(pages, served)
                wrong = sum(rows[page.path][field] != page.values[field] for page in pages)
                is_told = any(f"'{field}'" in each for each in drift)
                told += is_told or not wrong
                if wrong and not is_told:
                    silent += wrong
                    print(f"NOT TOLD: {change} of {name}.{field} from page {unchanged}, {wrong} rows; told: {drift}")
    kinds = f"{len(CHANGES)} kinds of change on {len(CATALOGUES)} templates, on all pages and on half of them"
    print(f"{kinds}: {told} of {2 * len(CHANGES) * len(CATALOGUES)} told, {silent:,} wrong rows silent")


if __name__ == "__main__":
    main()
