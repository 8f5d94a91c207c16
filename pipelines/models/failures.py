"""Failures of models, with stable codes."""

from __future__ import annotations

from typing import Literal

FailureCode = Literal[
    "budget-spent",
    "model-answer-invalid",
    "model-busy",
    "model-refused",
    "model-rejected",
    "model-unreachable",
]


class ModelFailed(Exception):
    """A model gave no usable answer; the message is a sentence without secrets.

    `retryable`: the same question may be answered later. `wait`: the seconds of the server's Retry-After header.
    """

    def __init__(self, sentence: str, code: FailureCode, *, retryable: bool = False, wait: float | None = None) -> None:
        super().__init__(sentence)
        self.code: FailureCode = code
        self.retryable = retryable
        self.wait = wait
