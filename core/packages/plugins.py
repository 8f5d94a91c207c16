"""Which plugins an agent's pipeline cannot do without."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import yaml

from pipelines.catalog import ENGINE
from pipelines.registry import STAGES


def plugins_of(pipelines: Iterable[str]) -> tuple[str, ...]:
    """The distributions, by name, that brought the stages of these pipelines; the engine's own are no plugin."""
    return tuple(sorted({plugin for text in pipelines for plugin in _plugins(text)} - {ENGINE}))


def _plugins(text: str) -> Iterator[str]:
    loaded: Any = yaml.safe_load(text)  # it was checked when the agent was written
    for item in loaded.get("pipeline") or ():
        found = STAGES.get(str(item.get("stage")).partition(":")[0])
        if found is not None:
            yield found.plugin
