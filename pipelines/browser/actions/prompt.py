"""The action that a prompt describes."""

from __future__ import annotations

from typing import ClassVar, Self

from pydantic import model_validator

from pipelines.browser.actions import Action, Visit, register_action
from pipelines.errors import ArgumentError
from pipelines.language.names import truncate

_SHOWN = 60  # characters
_PATIENCE = 300.0  # seconds, for the calls of a model on the first page of a kind


@register_action("prompt")
class Prompt(Action):
    """Performs a `prompt` (or `text`) on the page, such as `show all prices`: click, type, scroll and wait.

    A language model chooses the steps on one page of each kind, in at most 10 calls, and sees the controls of the page
    and the beginning of its text. The steps are kept as trace actions with the organization's proven selectors, and
    replayed on the other pages without a call. A page that they do not fit is opened again, and other steps are found.
    It types only words of the prompt, and no step leaves the site. Without recorded steps and without a model, the
    page fails with an `_error`.
    """

    example = "[{action: prompt, params: {prompt: accept the cookies}}]"

    asks_model: ClassVar[bool] = True
    prompt: str | None = None
    text: str | None = None

    @model_validator(mode="after")
    def _check_prompt(self) -> Self:
        if not (self.prompt or self.text):
            raise ArgumentError("'prompt' is missing", "missing-argument")
        return self

    def title(self) -> str:
        return truncate(self.prompt or self.text or "", _SHOWN)

    def patience(self) -> float:
        return _PATIENCE

    async def perform(self, visit: Visit) -> None:
        await visit.perform_prompt(self.prompt or self.text or "")
