from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.language.engines import EngineName
from tests.support.pipelines import Run, make_runner


@pytest.fixture(params=["auto", pytest.param("spark", marks=pytest.mark.long)])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Run:
    """Run a pipeline on the engine that the product chooses, and in the long suite also on Spark."""
    return make_runner(lambda: request.getfixturevalue("spark"), tmp_path, EngineName(request.param))
