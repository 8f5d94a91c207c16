"""The tools of stages outside of a pass."""

from __future__ import annotations

from pipelines.contract.workers import Tools
from pipelines.extract.rows import PageTally
from pipelines.inference.page_reader import PageReader

TOOLS = Tools(PageReader(), PageTally(0))
