"""The crawl as a pipeline."""

from __future__ import annotations

from bench.crawlers.fields import FIELDS, LINKS

_EXTRACTORS = "\n".join(f'      - {{selector: "{css}", method: text, as: {name}}}' for name, css in FIELDS.items())

PIPELINE = f"""\
fetch:
  url: ${{SITE}}
pipeline:
  - stage: wgetExplore
    args: ["{LINKS}", {{depth: 100}}]
  - stage: extract
    args:
{_EXTRACTORS}
spindle:
  keepColumns: [_url, _status, _depth]
"""
