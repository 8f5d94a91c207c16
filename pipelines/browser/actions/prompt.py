"""The action that a prompt describes."""

from __future__ import annotations

from typing import Self

from pydantic import model_validator

from pipelines.browser.actions import Action, Visit, register_action
from pipelines.browser.failures import VisitFailed
from pipelines.errors import ArgumentError
from pipelines.language.names import truncate

NOT_PERFORMED = "this version performs no action that a prompt describes; use click, fill and the other actions"
_SHOWN = 60  # characters


@register_action("prompt")
class Prompt(Action):
    """Describes work on the page in words, as `prompt` or `text`. This version performs no such work: it is an error.

    A pipeline with it is stored and checked, with a warning.
    """

    example = "[{action: prompt, params: {prompt: accept the cookies}}]"

    prompt: str | None = None
    text: str | None = None

    @model_validator(mode="after")
    def _check_prompt(self) -> Self:
        if not (self.prompt or self.text):
            raise ArgumentError("'prompt' is missing", "missing-argument")
        return self

    def title(self) -> str:
        return truncate(self.prompt or self.text or "", _SHOWN)

    async def perform(self, visit: Visit) -> None:
        raise VisitFailed(NOT_PERFORMED)
