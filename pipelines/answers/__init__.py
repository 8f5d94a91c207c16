"""Answers that rows wait for, while transfers go on: rows are taken again once their answers have arrived."""

from __future__ import annotations

from pipelines.answers.deferred_rows import AnswerSource, DeferredRows
from pipelines.answers.pending import AnswerPending
from pipelines.answers.services import ServiceClient, ServiceFailed

__all__ = ["AnswerPending", "AnswerSource", "DeferredRows", "ServiceClient", "ServiceFailed"]
