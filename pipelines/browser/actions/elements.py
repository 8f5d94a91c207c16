"""Actions on the elements of a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from pipelines.browser.actions import Action, Visit, register_action
from pipelines.browser.actions.selectors import PageSelector

if TYPE_CHECKING:
    from playwright.async_api import Locator


class _ElementAction(Action):
    """An action on the first element that the selector finds, once it is ready.

    After `timeout` seconds without one the page fails or, for an `optional` action, the trace continues.
    """

    selector: PageSelector
    timeout: float = Field(10, gt=0, le=600)
    optional: bool = False

    def title(self) -> str:
        return self.selector

    def patience(self) -> float:
        return self.timeout

    async def perform(self, visit: Visit) -> None:
        from playwright.async_api import (
            TimeoutError as PlaywrightTimeout,  # here: checking a pipeline needs no Playwright
        )

        try:
            await self.act(visit.frame.locator(self.selector).first, self.timeout * 1000)
        except PlaywrightTimeout:
            if not self.optional:
                raise

    async def act(self, element: Locator, milliseconds: float) -> None:
        raise NotImplementedError


@register_action("click")
class Click(_ElementAction):
    """Clicks on the first element that the selector finds; an `optional` one may be missing."""

    example = "[{action: click, params: {selector: a.next}}]"

    async def act(self, element: Locator, milliseconds: float) -> None:
        await element.click(timeout=milliseconds)


@register_action("hover")
class Hover(_ElementAction):
    """Moves the mouse over an element."""

    example = "[{action: hover, params: {selector: h1}}]"

    async def act(self, element: Locator, milliseconds: float) -> None:
        await element.hover(timeout=milliseconds)


@register_action("type", "fill")
class Type(_ElementAction):
    """Fills a field with text; with `delayMs` key by key, for pages that listen to keys."""

    example = "[{action: type, params: {selector: input, text: lamp, delayMs: 10}}]"

    text: str
    delay_ms: int | None = Field(None, alias="delayMs", ge=0, le=10_000)

    def patience(self) -> float:
        return self.timeout + len(self.text) * (self.delay_ms or 0) / 1000

    async def act(self, element: Locator, milliseconds: float) -> None:
        if self.delay_ms is None:
            await element.fill(self.text, timeout=milliseconds)
        else:
            await element.press_sequentially(self.text, delay=self.delay_ms, timeout=self.patience() * 1000)


@register_action("select")
class Select(_ElementAction):
    """Chooses an option of a list by its value or its label."""

    example = "[{action: select, params: {selector: select, value: Cups}}]"

    value: str

    async def act(self, element: Locator, milliseconds: float) -> None:
        await element.select_option(self.value, timeout=milliseconds)


@register_action("dismiss_consent")
class DismissConsent(Action):
    """Refuses the consent notice of the page, if one appears within `seconds`, and lets the page scroll again.

    The notices of the common platforms are known by a kept list, others by a button that refuses in their words. A
    notice that offers no refusal is hidden without an answer where that is known to work; otherwise the page fails.
    """

    example = "[{action: dismiss_consent, params: {seconds: 1}}]"

    seconds: float = Field(3, gt=0, le=60)

    def patience(self) -> float:
        return self.seconds + 20

    async def perform(self, visit: Visit) -> None:
        await visit.dismiss_consent(self.seconds)


@register_action("press")
class Press(Action):
    """Presses a key like Enter, Escape or Control+A, where the focus is or on an element."""

    example = "[{action: press, params: {key: Enter, selector: input}}]"

    key: str = Field(min_length=1)
    selector: PageSelector | None = None
    timeout: float = Field(10, gt=0, le=600)

    def title(self) -> str:
        return self.key

    def patience(self) -> float:
        return self.timeout

    async def perform(self, visit: Visit) -> None:
        if self.selector is None:
            await visit.page.keyboard.press(self.key)
        else:
            await visit.frame.locator(self.selector).first.press(self.key, timeout=self.timeout * 1000)
