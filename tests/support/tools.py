"""The tools of stages outside of a pass."""

from __future__ import annotations

from pipelines.contract.workers import Tools
from pipelines.extract.rows import PageTally

TOOLS = Tools(PageTally(0))
