from __future__ import annotations

import pytest

from tests.support.imports import list_imported

DOMAIN = """\
import core.lifecycle.submission.submit, core.lifecycle.executions.reports
import core.lifecycle.tasks.repository, core.definitions.identity.api_keys
from pipelines.pipeline import check_yaml
check_yaml("pipeline: [{stage: wget, args: ['http://x/']}, {stage: extract, args: [{selector: a, method: text}]}]")
"""


@pytest.mark.long
def test_the_domain_carries_no_spark_dagster_or_server() -> None:
    assert list_imported(DOMAIN, ("pyspark", "pyarrow", "pandas", "dagster", "fastapi")) == []
