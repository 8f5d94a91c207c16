"""Which plugins an agent's pipeline cannot do without."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pipelines import PipelineError
from pipelines.language import nodes as document
from pipelines.registry.catalog import ENGINE
from pipelines.registry.stage import STAGES


def plugins_of(pipelines: Iterable[str]) -> tuple[str, ...]:
    """The distributions, by name, that brought the stages of these pipelines; the engine's own are no plugin."""
    return tuple(sorted({plugin for text in pipelines for plugin in _plugins(text)} - {ENGINE}))


def _plugins(text: str) -> Iterator[str]:
    try:
        root = document.parse(text).plain()
    except PipelineError:
        return  # it was stored by other rules than today's
    stages = root.get("pipeline") if isinstance(root, dict) else None
    for item in stages if isinstance(stages, list) else ():
        name = str(item.get("stage")) if isinstance(item, dict) else ""
        found = STAGES.get(name.partition(":")[0])
        if found is not None:
            yield found.plugin
