"""Pages that need the browser: `python -m bench.rendering [PAGES]`.

A shop of three templates, of which one has its prices from a script: `spindle: {render: auto}` by HTTP and the browser
against visitJoin for all pages, both without Spark; the rows must be equal.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from tempfile import TemporaryDirectory

from bench.service import describe_machine
from pipelines.contract.context import RunContext
from pipelines.engine.options import make_fetch_options
from pipelines.engine.rendering import describe_rendering
from pipelines.engine.run import Run
from pipelines.local.runner import LocalRunner
from pipelines.pipeline import Pipeline
from tests.support.site import serve_site

PAGES = 300
FILLER = "<p>A sentence about nothing in particular, as pages have many of them.</p>" * 100
SCRIPT = "document.querySelector('section').insertAdjacentHTML('beforeend', '<b class=price>' + 2 + '</b>')"
TEMPLATES = (
    f"<main><section><h1>lamp {{}}</h1></section>{FILLER}</main><script>{SCRIPT}</script>",
    f"<article><p>text</p><h1>note {{}}</h1><table><tr><td>x</td></tr></table>{FILLER}</article>",
    f"<div><ul><li>c</li></ul><h1>cup {{}}</h1><b class=price>3</b>{FILLER}</div>",
)
TEXT = """
fetch: {{url: "{url}/"}}
pipeline:
  - {{stage: {stage}, args: [a]}}
  - {{stage: extract, args: [{{selector: h1, as: name}}, {{selector: .price, as: price}}]}}
spindle: {{render: {render}}}
"""


def main() -> None:
    pages = int(sys.argv[1]) if len(sys.argv) > 1 else PAGES
    print(describe_machine())
    with serve_site() as site:
        found = dict(build_pages(pages))
        site.serve({"/": "".join(f"<a href={path}>{path}</a>" for path in found), **found})
        with TemporaryDirectory() as learned:
            runs = {
                "visitJoin": TEXT.format(url=site.url, stage="visitJoin", render="never"),
                "render: auto, first run": TEXT.format(url=site.url, stage="join", render="auto"),
                "render: auto, next run": TEXT.format(url=site.url, stage="join", render="auto"),
            }
            measured = {name: run(text, learned) for name, text in runs.items()}
    whole, rows, _ = measured["visitJoin"]
    for name, (seconds, own, sentence) in measured.items():
        share = f"{seconds / whole:.2f} of visitJoin"
        print(f"{name:<28}{seconds:>8.1f} s   {share}   {sentence}")
        if own != rows:
            raise SystemExit(f"{name} has other rows")


def build_pages(pages: int) -> Iterator[tuple[str, str]]:
    for number in range(pages):
        yield f"/{number}", TEMPLATES[number % len(TEMPLATES)].format(number)


def run(text: str, learned: str) -> tuple[float, list[object], str]:
    """Return seconds, rows, and the sentence about the browser."""
    plan = Pipeline.from_yaml(text).plan()
    context = RunContext(fetch=make_fetch_options(plan.options, ("127.0.0.0/8",)), selectors=learned)
    with Run(plan, context) as run:
        began = time.perf_counter()
        rows = LocalRunner(run).collect().to_pylist()
        seconds = time.perf_counter() - began
        found = {name: each for counts in run.get_counts().values() for name, each in counts.rendering.items()}
    return seconds, rows, describe_rendering(found) if found else ""


if __name__ == "__main__":
    main()
