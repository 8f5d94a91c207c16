"""Drafts: a selector that is added becomes a column, and everything else stays as it was written."""

from __future__ import annotations

import pytest

from pipelines.pipeline import Pipeline
from pipelines.planning.draft import add_selector

BLOCK = """fetch: {url: http://x.test/}
pipeline:
  - stage: extract # first
    args:
      - selector: h1
        as: price # the wrong name

spindle: {keepColumns: [_url]}
"""


@pytest.mark.parametrize(
    ("text", "added"),
    [
        (BLOCK, "        as: price # the wrong name\n      - {selector: .price, method: text, as: price_2}\n"),
        (
            "fetch: {url: http://x.test/}\npipeline: [{stage: extract, args: [{selector: h1, as: h}]}]\n",
            "args: [{selector: h1, as: h}, {selector: .price, method: text, as: price}]",
        ),
        (
            "fetch: {url: http://x.test/}\npipeline: []\n",
            "pipeline:\n  - stage: extract\n    args:\n      - {selector: .p",
        ),
        (
            "fetch: {url: http://x.test/}\npipeline:\n- {stage: wgetJoin, args: [a]}",
            "\n- {stage: extract, args: [{selector: .price, method: text, as: price}]}",
        ),
    ],
)
def test_a_column_is_added_in_the_way_of_the_text(text: str, added: str):
    changed = add_selector(text, ".price")
    assert added.removesuffix("p") in changed
    assert Pipeline.from_yaml(changed).plan()
    assert all(line in changed for line in text.splitlines() if "pipeline" not in line)
