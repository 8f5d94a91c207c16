"""Stages that pipelines elsewhere use and that are not there: `check` says why, with the line."""

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
STAGES.mark_unsupported("a plugin brings it, and none that is installed does", "searchEngine", "imageSimilarity")
