"""Two readers in a loop while a job writes its dataset and its driver is killed at random: each sees whole versions.

Each mode, each format and each kind of storage occurs once, a bucket in tests/storage; more kills for each with
SPINDLE_CRASH_OVERWRITES.
"""

from __future__ import annotations

import pytest

from tests.support.libraries import needs_libraries
from tests.support.service import Service
from tests.support.versions import write_and_read

pytestmark = [pytest.mark.long, pytest.mark.timeout(3000)]


@pytest.mark.gate
@pytest.mark.parametrize(
    ("format_", "mode"),
    [
        pytest.param("parquet", "history", marks=pytest.mark.variant),
        pytest.param("delta", "overwrite", marks=needs_libraries),
        pytest.param("iceberg", "merge", marks=[needs_libraries, pytest.mark.variant]),
    ],
)
def test_two_readers_see_whole_versions_only(expendable: Service, format_: str, mode: str) -> None:
    write_and_read(expendable, format_, mode)
