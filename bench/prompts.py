"""Prompts, as figures: `python -m bench.prompts [PAGES]`.

Per template of tests/support/templates.py: calls and tokens of an inference with the test suite's model, which answers
by rules, and how much of its pages pruning saves. Then one template with proven selectors beside the same crawl with
hand-written ones, in turns in one process, and the time that clustering takes a page. The site is in this process too.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from bench.service import describe_machine
from pipelines.contract.context import RunContext
from pipelines.engine.options import make_fetch_options
from pipelines.engine.run import Run
from pipelines.inference.proving import infer
from pipelines.inference.pruning import prune_text
from pipelines.inference.templates import Templates, get_features
from pipelines.local.runner import LocalRunner
from pipelines.models.client import ModelClient
from pipelines.pipeline import Pipeline
from tests.support.models import KEY, answer_truth, serve_model
from tests.support.pages import document
from tests.support.site import serve_site
from tests.support.templates import HOST, TEMPLATES, ask_for_all, get_truth, make_listing, make_pages

PAGES, ROUNDS, SAMPLES = 1_000, 5, 12
GOALS = {"speed": 0.9, "clustering": 20.0}
TEXT = "fetch: {{url: '${{B}}/'}}\npipeline:\n- {{stage: wgetJoin, args: [ul.list a]}}\n- {stage}\n"
ASK = "{stage: iextract, args: ['title as title and price as price and rating as rating']}"
HAND = (
    "{stage: extract, args: [{selector: .product_name, as: title}, {selector: .price, as: price}, "
    "{selector: .rating, as: rating}]}"
)


def main() -> None:
    pages = int(sys.argv[1]) if len(sys.argv) > 1 else PAGES
    print(describe_machine())
    for template in TEMPLATES:
        count_calls(template)
    compare_speed(pages)
    measure_clustering()


def count_calls(template: str) -> None:
    """Print what an inference for one template costs, and what its pages would cost without pruning."""
    pages = make_pages(template, SAMPLES, 20)
    with serve_model(answer_truth(get_truth(*pages))) as server:
        client = ModelClient(server.make_model())
        features = get_features(document(pages[0].html, pages[0].url))
        found = infer(ask_for_all(), HOST, template, features, [each.make_sample() for each in pages], client)
    whole = sum(len(each.html) for each in pages)
    pruned = sum(len(prune_text(each.make_sample().element)) for each in pages)
    saved = 1 - pruned / whole
    print(
        f"{template}: {found.usage.calls} calls, {found.usage.tokens:,} tokens; "
        f"pruning leaves {pruned:,} of {whole:,} characters ({saved:.0%} saved)"
    )


def compare_speed(count: int) -> None:
    """Print pages per second with proven selectors, and their ratio to those of hand-written ones."""
    with ExitStack() as stack:
        server = stack.enter_context(serve_model())
        os.environ |= {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": server.url}
        site, folder = stack.enter_context(serve_site()), stack.enter_context(TemporaryDirectory())
        pages = make_pages("classes", count, 1_000)
        server.rule = answer_truth(get_truth(*pages))
        base = site.serve({"/": make_listing(*pages), **{page.path: page.html for page in pages}})

        def crawl(stage: str) -> tuple[float, list[Any]]:
            plan = Pipeline.from_yaml(TEXT.format(stage=stage)).plan({"B": base})
            fetch = make_fetch_options(plan.options, ("127.0.0.0/8",))
            with Run(plan, RunContext(fetch=fetch, selectors=folder)) as run:
                began = time.monotonic()
                rows = LocalRunner(run).collect().to_pylist()
                return len(rows) / (time.monotonic() - began), rows

        _, first = crawl(ASK)
        calls = len(server.requests)
        speeds = [(crawl(ASK), crawl(HAND)) for _ in range(ROUNDS)]
        again = len(server.requests) - calls
    ratio = median(proven[0] / hand[0] for proven, hand in speeds)
    same = all(proven[1] == hand[1] == first for proven, hand in speeds)
    print(
        f"{count:,} pages: {calls} calls, later {again}; proven selectors {median(each[0][0] for each in speeds):,.0f} "
        f"pages/s, hand-written ones {median(each[1][0] for each in speeds):,.0f}, ratio {ratio:.2f} "
        f"(goal {GOALS['speed']}), rows {'equal' if same else 'DIFFERENT'}"
    )


def measure_clustering() -> None:
    """Print the microseconds a page that its template takes, after parsing."""
    documents = [document(each.html, each.url) for name in TEMPLATES for each in make_pages(name, 200)]
    templates = Templates()
    for each in documents:
        templates.assign(get_features(each))  # parses the page

    def assign() -> None:
        for each in documents:
            templates.assign(get_features(each))

    micros = median(_time(assign) for _ in range(ROUNDS)) / len(documents) * 1e6
    print(f"clustering: {micros:.1f} µs a page (goal {GOALS['clustering']:.0f})")


def _time(work: Callable[[], object]) -> float:
    began = time.monotonic()
    work()
    return time.monotonic() - began


if __name__ == "__main__":
    main()
