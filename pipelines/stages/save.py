"""save_csv, save_jsonl and save_parquet: write the rows to files, which are published when the run is complete."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.language.columns import quote_column
from pipelines.planning.stage import Sink, register_stage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NESTED = ("array<", "map<", "struct<")


@register_stage("save_csv")
class SaveCsv(Sink):
    """Write the rows as CSV with a header, nested values as JSON; the rows pass on unchanged.

    A name in the project's storage (`prices`, `${OUTPUT_PRICES}`, `spindle://project/prices`) can be loaded by every
    pipeline after this execution is complete. `spindle run` writes to a local folder. `mode` is overwrite or append.
    Engine columns are omitted.
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


@register_stage("save_jsonl")
class SaveJsonl(Sink):
    """Write the rows as JSON, one object per line, nulls included; the rows pass on unchanged.

    Paths and modes are those of save_csv. load_json reads the files.
    """

    example = """
pipeline:
  - {stage: load_csv, args: ["${FOLDER}/products.csv"]}
  - {stage: save_jsonl, args: ["${FOLDER}/saved"]}
"""

    format = "json"

    def write(self, rows: DataFrame, folder: str) -> None:
        rows.write.option("ignoreNullFields", False).json(folder)


@register_stage("save_parquet")
class SaveParquet(Sink):
    """Write the rows as Parquet with their types; the rows pass on unchanged. Paths and modes are those of save_csv."""

    example = """
pipeline:
  - {stage: load_csv, args: ["${FOLDER}/products.csv"]}
  - {stage: save_parquet, args: ["${FOLDER}/saved"]}
"""

    format = "parquet"

    def write(self, rows: DataFrame, folder: str) -> None:
        rows.write.parquet(folder)
