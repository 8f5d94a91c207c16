"""The preparation of the data folder before a start."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.data_folder import prepare
from core.infra.settings import Settings
from core.lifecycle.usage.prices import BadPrices


def test_a_start_is_refused_without_prices(tmp_path: Path) -> None:
    with pytest.raises(BadPrices, match="SPINDLE_CLOUD_PROVIDER"):
        prepare(Settings(data=tmp_path, cloud_provider="ibm"))
