"""limit: the first rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from pipelines.registry import TableStage, stage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pipelines.spark.context import RunContext


@stage("limit")
class Limit(TableStage):
    """Keeps the first rows in document order."""

    positional = ("rows",)
    rows: int = Field(ge=0, le=2_147_483_647)

    def title(self) -> str:
        return str(self.rows)

    def table(self, rows: DataFrame, context: RunContext) -> DataFrame:
        return rows.orderBy("_ordinal").limit(self.rows)
