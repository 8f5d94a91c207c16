"""A crawl as a pipeline; `options` are lines of the `spindle` block."""

from __future__ import annotations

from bench.crawlers.fields import Crawl


def build_pipeline(crawl: Crawl, options: str = "") -> str:
    lines = (f'      - {{selector: "{css}", method: text, as: {name}}}' for name, css in crawl.fields.items())
    extractors = "\n".join(lines)
    stage, depth = ("wgetExplore", f", {{depth: {crawl.depth}}}") if crawl.deep else ("wgetJoin", "")
    return f"""\
fetch:
  url: ${{SITE}}
pipeline:
  - {{stage: {stage}, args: ["{crawl.links}"{depth}]}}
  - stage: extract
    args:
{extractors}
spindle:
  keepColumns: [_url, _status, _depth, _fetchedAt]
{options}"""
