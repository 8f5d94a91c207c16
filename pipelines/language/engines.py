"""The names of what runs a plan."""

from __future__ import annotations

from enum import StrEnum


class EngineName(StrEnum):
    AUTO = "auto"
    LOCAL = "local"
    SPARK = "spark"
