"""Actions that open addresses, wait and scroll."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from pipelines.browser.actions import Action, Visit, register_action
from pipelines.browser.actions.selectors import PageSelector
from pipelines.browser.open_requests import OpenRequests
from pipelines.errors import ArgumentError
from pipelines.fetch import canonical_url
from pipelines.language.names import validate_choice

_SCROLL_MS = 2000.0  # for an element that moves
# with a form as the root element, properties such as scrollTop may be its inputs
_AT_BOTTOM = """(([step, behavior]) => {
  window.scrollBy({top: step || window.innerHeight, behavior});
  const page = document.scrollingElement || document.documentElement;
  const top = Number(page.scrollTop) || 0, height = Number(page.scrollHeight) || 0;
  return [top + window.innerHeight >= height - 2, height];
})(ARGUMENTS)"""


def _validate_address(value: str) -> str:
    if "${" in value or canonical_url(value):
        return value
    raise ValueError(f"'{value}' is not an http or https address")


@register_action("visit")
class Open(Action):
    """Opens an address, the row's own where none is given, and then rests for `cooldown` seconds."""

    example = "[{action: visit, params: {url: '${SHOP}/', cooldown: 0.1}}]"

    url: Annotated[str, AfterValidator(_validate_address)] | None = None
    cooldown: float = Field(0, ge=0, le=600)

    def title(self) -> str:
        return self.url or ""

    def patience(self) -> float:
        return self.cooldown

    async def perform(self, visit: Visit) -> None:
        await visit.go(self.url or visit.address)
        await asyncio.sleep(self.cooldown)


@register_action("wait")
class Wait(Action):
    """Waits."""

    example = "[{action: wait, params: {seconds: 0.2}}]"

    seconds: float = Field(ge=0, le=600)

    def title(self) -> str:
        return f"{self.seconds:g} s"

    def patience(self) -> float:
        return self.seconds

    async def perform(self, visit: Visit) -> None:
        await asyncio.sleep(self.seconds)


@register_action("wait_for")
class WaitFor(Action):
    """Waits until an element is `visible`, `attached` (there, seen or not), `hidden` or `detached`."""

    example = "[{action: wait_for, params: {selector: h1}}]"

    selector: PageSelector
    state: Annotated[str, validate_choice("state", ("visible", "attached", "hidden", "detached"))] = "visible"
    timeout: float = Field(30, gt=0, le=600)

    def title(self) -> str:
        return self.selector

    def patience(self) -> float:
        return self.timeout

    async def perform(self, visit: Visit) -> None:
        # the type checker expects a literal
        state = self.state
        await visit.frame.locator(self.selector).first.wait_for(state=state, timeout=self.timeout * 1000)  # pyright: ignore[reportArgumentType]


@register_action("frame")
class EnterFrame(Action):
    """Enters a frame by its `name` (or id), or the element that a `selector` finds: the actions after it act in it.

    The page that is read then is the frame's document, with its address. A frame within it is entered by another
    `frame`, and one without parameters leads back to the whole page.
    """

    example = "[{action: frame, params: {name: offers}}, {action: click, params: {selector: b}}, {action: frame}]"

    name: str | None = Field(None, min_length=1, max_length=200)
    selector: PageSelector | None = None
    timeout: float = Field(10, gt=0, le=600)

    @model_validator(mode="after")
    def _check_one(self) -> Self:
        if self.name and self.selector:
            raise ArgumentError("give either 'name' or 'selector', not both", "conflicting-arguments")
        return self

    def title(self) -> str:
        return self.name or self.selector or ""

    def patience(self) -> float:
        return self.timeout

    async def perform(self, visit: Visit) -> None:
        name = json.dumps(self.name, ensure_ascii=False)
        selector = f":is(iframe, frame):is([name={name}], [id={name}])" if self.name else self.selector
        await visit.enter_frame(selector, self.timeout)


@register_action("scroll_to_bottom")
class ScrollToBottom(Action):
    """Scrolls down by `step` pixels (a window's height) at a time until nothing more comes, or `seconds` are over.

    With a `selector` it scrolls to the last element that this finds, also in a list that scrolls by itself, and ends
    once there are as many `items`. A request that the page waits for is awaited.
    """

    example = "[{action: scroll_to_bottom, params: {selector: li.product, items: 100, step: 600, pauseMs: 50}}]"

    behavior: Annotated[str, validate_choice("behavior", ("auto", "smooth"))] = "auto"
    step: int | None = Field(None, gt=0, le=100_000)
    pause_ms: int = Field(250, alias="pauseMs", ge=0, le=60_000)
    seconds: float = Field(30, gt=0, le=600)
    selector: PageSelector | None = None
    items: int | None = Field(None, gt=0, le=1_000_000)

    @model_validator(mode="after")
    def _check_items(self) -> Self:
        if self.items and not self.selector:
            raise ArgumentError("'items' needs a 'selector' that finds them", "missing-argument")
        return self

    def title(self) -> str:
        return self.selector or ""

    def patience(self) -> float:
        return self.seconds + _SCROLL_MS / 1000

    async def perform(self, visit: Visit) -> None:
        loop = asyncio.get_running_loop()
        end, before, still = loop.time() + self.seconds, (0, 0), 0
        script = _AT_BOTTOM.replace("ARGUMENTS", json.dumps([self.step, self.behavior]))
        with OpenRequests(visit.page) as is_loading:
            # stop after two pauses at the bottom without growth
            while still < 2 and loop.time() + self.pause_ms / 1000 < end:
                count = await self._scroll_to_last(visit) if self.selector else 0
                if self.items and count >= self.items:
                    return
                at_bottom, height = await visit.evaluate(script) or (True, 0)
                is_over = at_bottom and (height, count) == before and not is_loading
                before, still = (height, count), still + 1 if is_over else 0
                await asyncio.sleep(self.pause_ms / 1000)

    async def _scroll_to_last(self, visit: Visit) -> int:
        """Scroll to the last item; return how many there are."""
        from playwright.async_api import (
            TimeoutError as PlaywrightTimeout,  # here: checking a pipeline needs no Playwright
        )

        found = visit.frame.locator(self.selector or "")
        if count := await found.count():
            with suppress(PlaywrightTimeout):  # it moves, or has gone
                await found.last.scroll_into_view_if_needed(timeout=_SCROLL_MS)
        return count
