"""save_*: the rows as files, which the run publishes when it is complete."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.planning.stage import Sink, register_stage
from pipelines.stages.dataframes import quote_column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NESTED = ("array<", "map<", "struct<")


@register_stage("save_csv")
class SaveCsv(Sink):
    """Writes the rows as CSV with a header and goes on with them; nested values are written as JSON.

    A place in the project's storage (`prices`, `${OUTPUT_PRICES}`, `spindle://project/prices`) can be loaded by every
    pipeline under the same name once this execution is complete. `spindle run` writes a local folder. `mode` is
    overwrite or append. Columns of the engine are left out.
    """

    example = """
pipeline:
  - {stage: load_csv, args: ["${FOLDER}/products.csv"]}
  - {stage: save_csv, args: ["${FOLDER}/saved", overwrite]}
"""

    format = "csv"

    def write(self, rows: DataFrame, folder: str) -> None:
        from pyspark.sql import functions as F

        cells = (
            F.to_json(F.col(quote_column(name))).alias(name) if type_.startswith(_NESTED) else F.col(quote_column(name))
            for name, type_ in rows.dtypes
        )
        rows.select(*cells).write.option("header", True).csv(folder)


@register_stage("save_parquet")
class SaveParquet(Sink):
    """Writes the rows as Parquet, with their types, and goes on with them; paths and modes are those of save_csv."""

    example = """
pipeline:
  - {stage: load_csv, args: ["${FOLDER}/products.csv"]}
  - {stage: save_parquet, args: ["${FOLDER}/saved"]}
"""

    format = "parquet"

    def write(self, rows: DataFrame, folder: str) -> None:
        rows.write.parquet(folder)
