"""visit, visitJoin and visitExplore: the stages that follow links in the browser."""

from __future__ import annotations

from typing import Self

from pydantic import model_validator

from pipelines.browser.actions import Browsing, Traces
from pipelines.browser.actions.capture import Snapshot
from pipelines.language.columns import Columns
from pipelines.planning.stage import LinkStage, register_stage
from pipelines.stages.links import Wget, WgetExplore, WgetJoin


class _InBrowser(LinkStage):
    """Pages come from the browser; `traces` are performed on each. Images, fonts and media load with `images` alone."""

    traces: Traces = ()
    images: bool | None = None

    @property
    def browsing(self) -> Browsing:
        wanted = any(action.sees_images for action in self.traces)
        return Browsing(self.traces, wanted if self.images is None else self.images)

    def infer_columns(self, before: Columns) -> Columns:
        return before.with_columns(tuple(column for action in self.traces for column in action.columns()))


@register_stage("visit")
class Visit(_InBrowser, Wget):
    """Opens an address, or the address in a column, in the browser; rows without one stay without a page.

    The key `fetch` with `traces` does the same for a pipeline's first page.
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
class VisitJoin(_InBrowser, WgetJoin):
    """Follows each link in the browser: one row per link, in document order. Also `join` after a fetch with traces."""

    example = """
fetch: {url: "${SHOP}/"}
pipeline:
  - {stage: visitJoin, args: ["li.product a", Inner]}
  - {stage: extract, args: [{selector: h1, as: title}]}
"""

    positional = ("selector", "joinType", "traces", "images")


@register_stage("visitExplore")
class VisitExplore(_InBrowser, WgetExplore):
    """Follows links of links in the browser, each page once. Also `explore` after a fetch with traces."""

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
    def _one_page_for_a_link(self) -> Self:
        if sum(isinstance(action, Snapshot) for action in self.traces) > 1:
            raise ValueError("an explore visits each page once: its trace can take one snapshot")
        return self
