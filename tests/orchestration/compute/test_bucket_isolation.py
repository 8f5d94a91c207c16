"""Credentials of buckets stay with their execution: Hadoop keeps the keys of a bucket as long as its JVM lives."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from core.infra.settings import Settings
from core.lifecycle.executions.spec import build_spark_spec
from orchestration.compute.local import LocalCompute
from orchestration.compute.protocol import Launch
from tests.support.libraries import needs_libraries
from tests.support.s3 import get_bucket
from tests.support.service import PATIENCE_SECONDS, wait_until
from tests.support.spares import keep_spares, make_spec, wait_for_spare

ORGANIZATION = "organization"


@pytest.mark.gate
@pytest.mark.long
@needs_libraries
def test_the_next_execution_cannot_read_with_the_keys_of_the_former(tmp_path: Path) -> None:
    bucket = get_bucket()
    address = bucket.put("rows/rows.csv", b"name\nbook\n")
    (tmp_path / "data").mkdir()
    settings = Settings(
        data=tmp_path / "data",
        spark_master="local[1]",
        spark_driver_memory="512m",
        spare_drivers=1,
        spark_drivers=1,
        spare_libraries=("s3",),
    )
    compute = LocalCompute(settings)

    def run(execution: str, path: str, secrets: Mapping[str, str]) -> Launch:
        """Run an execution of the organization to its end."""
        text = f"pipeline: [{{stage: load_csv, args: [{{path: '{path}', header: true}}]}}]"
        spark = build_spark_spec(settings, ["s3"])
        credentials = dict.fromkeys(secrets, "id")
        fields = {"organization_id": ORGANIZATION, "spark": spark, "credentials": credentials}
        launched = compute.launch(make_spec(settings, execution, text, **fields), secrets)
        wait_until(lambda: not compute.observe(launched.handle).running, PATIENCE_SECONDS)
        compute.cancel(launched.handle)
        return launched

    with keep_spares(compute):
        wait_for_spare(settings.data, ready=True)
        first = run("first", address, bucket.user_environment)
        assert pq.read_table(tmp_path / "first").num_rows == 1
        second = run("second", address, {})
        log = "\n".join(compute.read_logs(second.handle, tail=1000))
        assert '"failed"' in log
        assert bucket.secret_key not in log
        assert not list(tmp_path.glob("second/*.parquet"))
        assert second.driver != first.driver, "the driver with the keys has ended"
