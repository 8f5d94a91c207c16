"""Row transforms: Python functions that take a row and give one, from plugins or written by users.

A plugin's function is the operator's and runs in the worker as it is. A user's is text: it is never run but in a
process of its own (`sandbox`), which can reach nothing of the service wherever the kernel can see to that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pipelines.registry.catalog import Catalog
from pipelines.registry.plugins import ROW_TRANSFORMS_GROUP

RowFunction = Callable[..., Any]
ROW_TRANSFORMS: Catalog[RowFunction] = Catalog("row transform", functions_group=ROW_TRANSFORMS_GROUP)
