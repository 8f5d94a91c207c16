"""Stages of other products that this version does not support, with the reason for `spindle check`."""

from __future__ import annotations

from pipelines.planning.stage import STAGES

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
