"""Row transforms: Python functions that take a row and give one, from plugins or written by users."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pipelines.catalog import Catalog

Function = Callable[..., Mapping[str, Any] | None]
ROW_TRANSFORMS: Catalog[Function] = Catalog("row transform")
