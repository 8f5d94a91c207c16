"""Actions that open addresses, wait and scroll."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated

from pydantic import AfterValidator, Field

from pipelines.browser.actions import Action, Visit, register_action
from pipelines.browser.actions.selectors import PageSelector
from pipelines.fetch import canonical_url
from pipelines.language.names import validate_choice

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
        await visit.page.locator(self.selector).first.wait_for(state=state, timeout=self.timeout * 1000)  # pyright: ignore[reportArgumentType]


@register_action("scroll_to_bottom")
class ScrollToBottom(Action):
    """Scrolls down by `step` pixels (a window's height) at a time until nothing more comes, or `seconds` are over."""

    example = "[{action: scroll_to_bottom, params: {behavior: smooth, step: 600, pauseMs: 50}}]"

    behavior: Annotated[str, validate_choice("behavior", ("auto", "smooth"))] = "auto"
    step: int | None = Field(None, gt=0, le=100_000)
    pause_ms: int = Field(250, alias="pauseMs", ge=0, le=60_000)
    seconds: float = Field(30, gt=0, le=600)

    def patience(self) -> float:
        return self.seconds

    async def perform(self, visit: Visit) -> None:
        loop = asyncio.get_running_loop()
        end, height, still = loop.time() + self.seconds, 0, 0
        script = _AT_BOTTOM.replace("ARGUMENTS", json.dumps([self.step, self.behavior]))
        # stop after two pauses at the bottom without growth
        while still < 2 and loop.time() + self.pause_ms / 1000 < end:
            at_bottom, new_height = await visit.evaluate(script) or (True, 0)
            still = still + 1 if at_bottom and new_height == height else 0
            height = new_height
            await asyncio.sleep(self.pause_ms / 1000)
