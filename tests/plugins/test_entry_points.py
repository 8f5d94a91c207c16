"""First-party plugins are registered by their entry points, and the engine works without them."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

from pipelines.listing import list_all_stages

ROOT = Path(__file__).parents[2]
STAGES = {
    "aggregatesentiment": "sentiment",
    "enrichMatchingScore": "matching",
    "filter_country": "countries",
    "imageSimilarity": "ean-image-sourcing",
    "priceNormalize": "prices",
    "propertyCluster": "analytics",
    "searchEngine": "search",
    "sentiment": "sentiment",
    "sentiment_monthly": "sentiment",
}
WITHOUT_PLUGINS = """
import sys
from pipelines import registry
registry.find_entry_points = lambda: []
from pipelines.planning.stage import STAGES
found = {entry.plugin for entry in STAGES}
print(found, STAGES.get("sentiment"), any(name.startswith("plugins") for name in sys.modules))
"""


def test_every_module_has_an_entry_point() -> None:
    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["spindle.plugins"]
    names = {path.stem for path in (ROOT / "plugins").glob("[a-z]*")}
    modules = {f"plugins.{name}:plugin" for name in names}
    assert {*points.values()} == modules


def test_their_stages_are_listed_with_the_plugin() -> None:
    assert {each.name: each.plugin for each in list_all_stages() if each.is_from_plugin} == STAGES


def test_the_engine_works_without_plugins() -> None:
    command = [sys.executable, "-c", WITHOUT_PLUGINS]
    found = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)
    assert found.stdout.split("\n")[0] == "{'spindle'} None False"
