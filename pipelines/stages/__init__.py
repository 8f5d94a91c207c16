"""The stages; a new one is a new module here. Those of other products have the reason why they are not supported."""

from __future__ import annotations

from pipelines.planning.stage import STAGES

STAGES.mark_unsupported("it needs a plugin that is not installed", "imageSimilarity")
