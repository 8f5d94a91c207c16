"""The save stages: write the rows to files or tables, which are published when the run is complete."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pipelines.planning.stage import Sink, register_stage
from pipelines.spark.dataframes import write_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class FileSink(Sink):
    """Base of stages that write files of one format to a folder."""

    def write(self, rows: DataFrame, folder: str) -> None:
        write_files(rows, folder, self.format, self.partition_by)


class TableSink(Sink):
    """Base of stages that write a new version of a Delta or Iceberg table."""

    keys: tuple[str, ...] = ()

    @property
    def merge_keys(self) -> tuple[str, ...]:
        return self.keys


@register_stage("save_csv")
class SaveCsv(FileSink):
    """Write the rows as CSV with a header, nested values as JSON, quotes doubled; the rows pass on unchanged.

    A name in the project's storage (`prices`, `${OUTPUT_PRICES}`, `spindle://project/prices`) can be loaded by every
    pipeline after this execution is complete. A path in a bucket, and a local one of `spindle run`, is one file where
    its name ends in `.csv`, and a folder otherwise; a file in a bucket cannot be appended to. `mode` is overwrite,
    append, error (fail where there are rows) or ignore (keep them instead). `partitionBy` names columns with a folder
    for each of their values. Engine columns are omitted.
    """

    example = """
pipeline:
  - {stage: load_csv, args: ["${FOLDER}/products.csv"]}
  - {stage: save_csv, args: ["${FOLDER}/saved", overwrite]}
"""

    format = "csv"


@register_stage("save_jsonl", "save_json")
class SaveJsonl(FileSink):
    """Write the rows as JSON, one object per line, nulls included; the rows pass on unchanged.

    Paths, modes and partitions are those of save_csv; `.jsonl` and `.json` are names of one file. load_json reads it.
    """

    example = """
pipeline:
  - {stage: load_csv, args: ["${FOLDER}/products.csv"]}
  - {stage: save_jsonl, args: ["${FOLDER}/saved"]}
"""

    format = "json"


@register_stage("save_parquet")
class SaveParquet(FileSink):
    """Write the rows as Parquet with their types; the rows pass on unchanged.

    Paths, modes and partitions are those of save_csv. `.parquet` is the name of one file, which cannot be appended to.
    """

    example = """
pipeline:
  - {stage: load_csv, args: ["${FOLDER}/products.csv"]}
  - {stage: save_parquet, args: ["${FOLDER}/saved"]}
"""

    format = "parquet"


@register_stage("save_avro")
class SaveAvro(FileSink):
    """Write the rows as Avro with their types; the rows pass on unchanged.

    Paths, modes and partitions are those of save_csv. Names of columns have letters, digits and underscores only.
    """

    example = """
pipeline:
  - {stage: load_csv, args: ["${FOLDER}/products.csv"]}
  - {stage: save_avro, args: ["${FOLDER}/saved"]}
"""

    format = "avro"


@register_stage("save_delta")
class SaveDelta(TableSink):
    """Write the rows as the next version of a Delta table; the rows pass on unchanged.

    Paths are those of save_csv. `mode` is overwrite, append, merge (update the rows with equal `keys`, add the others),
    error or ignore. Columns that the table lacks are added to it; a column of another type is an error. The version is
    written when the run is complete.
    """

    example = """
pipeline:
  - {stage: load_csv, args: ["${FOLDER}/products.csv"]}
  - {stage: dedup, args: [name]}
  - {stage: save_delta, args: ["${FOLDER}/saved", merge, {keys: [name]}]}
"""

    format = "delta"


@register_stage("save_iceberg")
class SaveIceberg(TableSink):
    """Write the rows as the next version of an Iceberg table; the rows pass on unchanged.

    Paths and modes are those of save_delta.
    """

    example = """
pipeline:
  - {stage: load_csv, args: ["${FOLDER}/products.csv"]}
  - {stage: save_iceberg, args: ["${FOLDER}/saved", append, {partitionBy: [name]}]}
"""

    format = "iceberg"


WRITERS: Mapping[str, type[Sink]] = {
    each.format: each for each in (SaveCsv, SaveJsonl, SaveParquet, SaveAvro, SaveDelta, SaveIceberg)
}
