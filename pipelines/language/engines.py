"""The engines of a plan, and the growth of a run over to Spark."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

LOADED_BYTES, LOADED_ROWS = 50_000_000, 1_000_000  # of files that a run reads into memory, without Spark


class EngineName(StrEnum):
    AUTO = "auto"
    LOCAL = "local"
    SPARK = "spark"


@dataclass(frozen=True, slots=True)
class Growth:
    """Sizes beyond which a run grows over to Spark, between passes and between levels of an explore.

    `slow_pages` is for passes whose stages are slow or which use the browser.
    """

    pages: int = 50_000
    slow_pages: int = 1_000
    rows: int = 1_000_000
    bytes: int = 512 * 1024 * 1024
