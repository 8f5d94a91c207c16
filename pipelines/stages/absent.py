"""Stages that pipelines elsewhere use and that are not there: `check` says why, with the line."""

from __future__ import annotations

from pipelines.registry.stage import STAGES

STAGES.absent(
    "its format needs Java libraries that this version does not bring; use load_parquet, load_csv or load_json",
    "load_delta",
    "load_iceberg",
    "load_avro",
)
STAGES.absent(
    "it needs a database's Java driver, which this version does not bring; use load_parquet, load_csv or load_json",
    "load_jdbc",
)
STAGES.absent(
    "it needs a language model, which this version does not have; use selectors",
    "intelligentJoin",
    "intelligentExplore",
    "intelligentFlatSelect",
    "intelligentExtract",
    "intelligent_table",
    "iextract",
)
STAGES.absent("a plugin brings it, and none that is installed does", "searchEngine", "imageSimilarity")
