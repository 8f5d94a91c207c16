"""Types of the fixtures that run pipelines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Rows = list[dict[str, Any]]
Run = Callable[..., Rows]
