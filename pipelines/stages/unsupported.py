"""Stages of other products that this version does not support, with the reason for `spindle check`."""

from __future__ import annotations

from pipelines.planning.stage import STAGES

STAGES.mark_unsupported(
    "its format needs Java libraries that this version does not bring; use load_parquet, load_csv or load_json",
    "load_delta",
    "load_iceberg",
    "load_avro",
)
STAGES.mark_unsupported(
    "it needs a database's Java driver, which this version does not bring; use load_parquet, load_csv or load_json",
    "load_jdbc",
)
STAGES.mark_unsupported(
    "it needs a language model, which this version does not have; use selectors",
    "intelligentJoin",
    "intelligentExplore",
    "intelligentFlatSelect",
    "intelligentExtract",
    "intelligent_table",
    "iextract",
)
STAGES.mark_unsupported("it needs a plugin that is not installed", "searchEngine", "imageSimilarity")
