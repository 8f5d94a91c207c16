"""Consent notices, refused by the rules of autoconsent (folder autoconsent, docs/adr/0053), in all frames of a page."""

from __future__ import annotations

import asyncio
import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Frame

from pipelines.browser.failures import VisitFailed

if TYPE_CHECKING:
    from pipelines.browser.actions import Visit

_FOLDER = Path(__file__).parent / "autoconsent"
_TICK = 0.2
_RETRY_SECONDS = 0.5  # between two looks of autoconsent for a notice
_REFUSING_SECONDS = 15.0  # for the steps of a rule
_LOOKS = 3  # for a notice that was refused
_LOOK_SECONDS = 5.0  # at most
_MAX_FRAMES = 30  # of a page; others are most often advertisements
# in the isolated world: the page's scripts cannot send messages
_START = """delete window.autoconsentReceiveMessage;
window.spindleMessages = [];
window.autoconsentSendMessage = each => { spindleMessages.push(each); };
"""
_TAKE = "window.autoconsentReceiveMessage ? JSON.stringify(spindleMessages.splice(0)) : null"
# walls that are hidden, or whose page forgets it, leave the page behind them fixed
_UNLOCK = """for (const each of [document.documentElement, document.body]) {
  const style = each && getComputedStyle(each);
  if (style?.overflowY === 'hidden') each.style.setProperty('overflow', 'auto', 'important');
  if (style?.position === 'fixed') each.style.setProperty('position', 'static', 'important');
}"""


@cache
def _load_script() -> str:
    return _START + (_FOLDER / "content.js").read_text()


@cache
def _load_rules(is_main: bool) -> dict[str, Any]:
    """Return the rules for the page or, which are few, for its other frames."""
    rules = json.loads((_FOLDER / "rules.json").read_text())
    index = rules.pop("index")
    if is_main:
        return rules
    start, end = index["frameRuleRange"]
    return {**rules, "s": rules["s"][: index["frameStringEnd"]], "r": rules["r"][start:end]}


async def dismiss_consent(visit: Visit, seconds: float) -> None:
    """Refuse the notice that appears within so many seconds, if any; raise VisitFailed for one that stays."""
    refusal = _Exchange(visit, seconds)
    await refusal.run()
    if refusal.notice is None:
        return
    if refusal.result is not True or await _stays(visit):
        notice = f"the consent notice ({refusal.notice})"
        raise VisitFailed(f"{notice} could not be refused; a click of the trace may answer it")
    await visit.evaluate(_UNLOCK, visit.page.main_frame)


async def _stays(visit: Visit) -> bool:
    """Return whether a notice is still there: some rules succeed without a button that refuses."""
    for _ in range(_LOOKS):
        await asyncio.sleep(_RETRY_SECONDS)  # it may fade out
        look = _Exchange(visit, _LOOK_SECONDS, refuses=False)
        await look.run()
        if look.notice is None:
            return False
    return True


class _Exchange:
    """Messages of autoconsent from all frames of a page, and the answers to them, until it is done.

    `notice` is the name of the rule that has found one, `result` whether it could be refused; without `refuses` it is
    only looked for.
    """

    def __init__(self, visit: Visit, seconds: float, refuses: bool = True) -> None:
        self.notice: str | None = None
        self.result: bool | None = None
        self._visit = visit
        self._seconds = seconds
        self._refuses = refuses
        self._is_over = False
        self._started = set[Frame]()

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        while not self._is_over and self.result is not False:
            limit = self._seconds + (_REFUSING_SECONDS if self.notice else 0)
            if loop.time() - began >= limit:
                break
            for frame in self._visit.page.frames[:_MAX_FRAMES]:
                await self._exchange(frame)
            await asyncio.sleep(_TICK)

    async def _exchange(self, frame: Frame) -> None:
        """Answer the messages of a frame, in which autoconsent is started where it does not run yet."""
        try:
            sent = await self._visit.evaluate(_TAKE, frame) if frame in self._started else None
            if sent is None:
                self._started.add(frame)
                await self._visit.evaluate(_load_script(), frame)
                sent = await self._visit.evaluate(_TAKE, frame)
            for message in json.loads(sent or "[]"):
                await self._answer(frame, message)
        except (PlaywrightError, VisitFailed):  # the frame navigates, or has gone
            if self._visit.page.is_closed():
                raise

    async def _answer(self, frame: Frame, message: dict[str, Any]) -> None:
        match message["type"]:
            case "init":
                await self._send(
                    frame, {"type": "initResp", "config": self._configure(), "rules": _choose_rules(frame)}
                )
            case "eval":
                result = await frame.evaluate(message["code"])
                await self._send(frame, {"type": "evalResp", "id": message["id"], "result": result})
            case "popupFound":
                self.notice = str(message["cmp"])[:100]
                self._is_over |= not self._refuses
            case "optOutResult":
                self.result = bool(message["result"])
            case "autoconsentDone":
                self._is_over = True
            case "report":
                is_alone = frame.parent_frame is None and not (frame.child_frames and self._refuses)
                self._is_over |= is_alone and message["state"]["lifecycle"] == "nothingDetected"
            case _:
                pass

    def _configure(self) -> dict[str, Any]:
        return {
            "enabled": True,
            "autoAction": "optOut" if self._refuses else None,
            "disabledCmps": [],
            "enablePrehide": False,
            "enableCosmeticRules": True,
            "heuristicMode": "reject",
            "detectRetries": int(self._seconds / _RETRY_SECONDS) if self._refuses else 1,
        }

    async def _send(self, frame: Frame, message: dict[str, Any]) -> None:
        await self._visit.evaluate(f"autoconsentReceiveMessage({json.dumps(message)}), null", frame)


def _choose_rules(frame: Frame) -> dict[str, Any]:
    return {"compact": _load_rules(frame.parent_frame is None)}
