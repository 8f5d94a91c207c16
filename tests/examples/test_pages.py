"""examples/pages: a site of documentation as chunks in a Delta table (invoices.yaml has its test with the runners)."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from pipelines.contract.context import RunContext
from pipelines.contract.request import OUTPUT, Target
from pipelines.engine.options import make_fetch_options
from pipelines.engine.run import Run
from pipelines.pipeline import Pipeline
from pipelines.spark.runner import SparkRunner
from tests.support.libraries import needs_libraries
from tests.support.site import Site

FILE = Path(__file__).parents[2] / "examples/pages/docs-to-chunks.yaml"
PAGE = "<title>%s</title><main><h1>%s</h1><p>Text of it.</p><h2>%s</h2><p>More.</p><a href=/b>b</a></main>"


@pytest.mark.long
@needs_libraries
def test_a_site_of_documentation_is_a_delta_table_of_chunks(spark: SparkSession, web: Site, tmp_path: Path) -> None:
    base = web.serve({"/": PAGE % ("A", "A", "Old"), "/b": PAGE % ("B", "B", "Use")}) + "/"
    plan = Pipeline.from_yaml(FILE.read_text()).plan({"SITE": base})
    target = Target(location=str(tmp_path / "table"))
    for number in range(2):
        context = RunContext(
            targets={OUTPUT: target},
            fetch=make_fetch_options(plan.options, ("127.0.0.0/8",)),
            author=f"execution-{number}",
        )
        with Run(plan, context) as run:
            written = SparkRunner(run, spark).write(str(tmp_path / f"output{number}")).output
        spark.catalog.clearCache()
        assert written is not None
        assert written.table is not None
        target = Target(
            location=target.location,
            exists=True,
            format="delta",
            snapshot=written.table.snapshot,
            columns=written.columns,
        )
        web.serve({"/": PAGE % ("A", "A", "New"), "/b": 500})
    ids = DeltaTable(target.location or "").to_pyarrow_table().column("id").to_pylist()
    assert sorted(ids) == [f"{base}#a", f"{base}#a/new", f"{base}b#b", f"{base}b#b/use"]
