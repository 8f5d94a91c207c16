"""visit, visitJoin and visitExplore: follow links in the browser."""

from __future__ import annotations

from dataclasses import replace
from typing import Self

from pydantic import model_validator

from pipelines.browser.actions import Browsing, Traces
from pipelines.language.columns import Columns
from pipelines.planning.stage import Fetching, LinkStage, register_stage
from pipelines.stages.links import AddressStage, ExploreStage, JoinStage, LinkFilters


class _BrowserStage(LinkStage):
    """Base of stages that load pages in the browser and perform `traces` on them; `images` enables images and fonts."""

    traces: Traces = ()
    images: bool | None = None

    @property
    def fetching(self) -> Fetching:
        wanted = any(action.sees_images for action in self.traces)
        return Fetching(Browsing(self.traces, wanted if self.images is None else self.images))

    def infer_columns(self, before: Columns) -> Columns:
        after = before.with_columns(tuple(column for action in self.traces for column in action.columns()))
        return replace(after, open=after.open or any(action.has_open_columns for action in self.traces))


@register_stage("visit")
class Visit(_BrowserStage, AddressStage):
    """Open an address, or the address in a column, in the browser; rows without an address remain, without a page.

    The key `fetch` with `traces` does the same for the first page of a pipeline.
    """

    example = """
pipeline:
  - {stage: load_csv, args: ["${FOLDER}/products.csv"]}
  - stage: visit
    args:
      - $page
      - traces:
          - {action: wait_for, params: {selector: h1}}
  - {stage: extract, args: [{selector: h1, as: title}]}
"""

    positional = ("url", "traces", "images")


@register_stage("visitJoin")
class VisitJoin(_BrowserStage, LinkFilters, JoinStage):
    """Follow every link in the browser: one row per link, in document order. After a fetch with traces, also `join`."""

    example = """
fetch: {url: "${SHOP}/"}
pipeline:
  - {stage: visitJoin, args: ["li.product a", Inner]}
  - {stage: extract, args: [{selector: h1, as: title}]}
"""

    positional = ("selector", "joinType", "traces", "images")


@register_stage("visitExplore")
class VisitExplore(_BrowserStage, LinkFilters, ExploreStage):
    """Follow links of links in the browser, no page twice. After a fetch with traces, also `explore`."""

    example = """
fetch:
  url: "${SHOP}/"
  traces:
    - {action: scroll_to_bottom}
pipeline:
  - {stage: visitExplore, args: [a.next, {depth: 10}]}
  - {stage: flatSelect, args: [li.product, {selector: a, as: name}]}
"""

    positional = ("selector", "depth", "traces", "images")

    @model_validator(mode="after")
    def _check_snapshots(self) -> Self:
        if Browsing(self.traces).gives_documents:
            raise ValueError("an explore visits each page once: its trace can take one snapshot, and capture nothing")
        return self
