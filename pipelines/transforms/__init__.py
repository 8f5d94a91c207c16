"""Row transforms: Python functions from a row to a row, from plugins or written by users.

A plugin's function is trusted and runs in the worker. A user's function is text, and runs only in a sandboxed process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pipelines.registry import Registry

RowFunction = Callable[..., Any]
ROW_TRANSFORMS: Registry[RowFunction] = Registry("row transform")


def register_row_transform(function: RowFunction) -> RowFunction:
    """Function decorator that registers a row transform under the function's name."""
    ROW_TRANSFORMS.add(function.__name__, thing=function)
    return function
