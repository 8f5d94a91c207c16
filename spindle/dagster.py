"""Resources for Dagster code locations beside Spindle's; apart from `spindle`, since it imports Dagster.

docs/dagster.md has a complete code location.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dagster import AssetKey, ConfigurableResource

from spindle import datasets

if TYPE_CHECKING:
    import pyarrow
    from dagster_pyspark import PySparkResource

__all__ = ["SpindleDatasets", "build_pyspark_resource"]

MASTER = "local[*]"


class SpindleDatasets(ConfigurableResource["SpindleDatasets"]):
    """Reads the datasets of a Spindle, over REST with an API key.

    Inside `spindle up` it needs no configuration. Outside of it, give the key as EnvVar: Dagster shows other values.
    """

    url: str | None = None
    api_key: str | None = None

    def read(self, dataset: AssetKey | Sequence[str] | str, version: int | str | None = None) -> pyarrow.Table:
        """Return the rows of a job's asset, or of a table by its SQL name, as an Arrow table."""
        return datasets.read(_name(dataset), version=version, url=self.url, key=self.api_key)

    def download(
        self, dataset: AssetKey | Sequence[str] | str, path: Path | str, version: int | str | None = None
    ) -> Path:
        """Store the rows as a Parquet file and return its path; the rows are never all in memory."""
        return datasets.download(_name(dataset), path, version=version, url=self.url, key=self.api_key)


def build_pyspark_resource(master: str | None = None, conf: Mapping[str, str] | None = None) -> PySparkResource:
    """Return dagster-pyspark's resource with the settings of the sessions that execute pipelines.

    `master` and the heap are those of SPINDLE_SPARK_MASTER and SPINDLE_SPARK_DRIVER_MEMORY; `conf` overrides all.
    """
    from dagster_pyspark import PySparkResource

    from spindle.spark import build_conf

    return PySparkResource(spark_config={**build_conf(master or os.environ.get("SPINDLE_SPARK_MASTER", MASTER), conf)})


def _name(dataset: AssetKey | Sequence[str] | str) -> str:
    """Return the SQL name: the key of a job's asset ends with project and job."""
    if isinstance(dataset, str):
        return dataset
    path = dataset.path if isinstance(dataset, AssetKey) else dataset
    return ".".join(path[-2:])
