"""A prompt performed on a page: recorded steps are replayed, or found one at a time with the driver's model."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import urlsplit

from playwright.async_api import Error as PlaywrightError
from playwright.async_api import TimeoutError as PlaywrightTimeout

from pipelines.browser.actions import Action, Visit, read_action
from pipelines.browser.failures import VisitFailed, format_error
from pipelines.browser.open_requests import OpenRequests
from pipelines.coordination.client import VisitConnection
from pipelines.coordination.messages import Control, Endpoint, NextStep, Steps, StepsDone, StepsWanted, StepWanted

_QUIET_SECONDS = 0.3  # without requests and new elements
_MOST_SECONDS = 5.0  # that a page may take to become quiet
_TICK = 0.1
_STEP_SECONDS = 5.0  # for the element of a step, on a page that is quiet
_PREFIX = "action prompt: "
_COUNT = "document.getElementsByTagName('*').length"
_PATH = """(node) => {
    const parts = [];
    for (; node && node.nodeType === 1; node = node.parentElement) {
      let position = 1;
      for (let other = node.previousElementSibling; other; other = other.previousElementSibling)
        position += other.localName === node.localName;
      parts.unshift(`${node.localName}[${position}]`);
    }
    return parts.join('/');
  }"""
_LIST = f"""(() => {{
  const path = {_PATH}, found = [];
  const clean = text => String(text ?? '').replace(/\\s+/g, ' ').trim().slice(0, 80);
  const roles = ['button', 'tab', 'link', 'menuitem', 'checkbox', 'radio', 'switch', 'option'];
  const all = ['a[href]', 'button', 'input', 'select', 'textarea', 'summary', '[onclick]',
    ...roles.map(role => `[role=${{role}}]`)];
  for (const node of document.querySelectorAll(all.join(','))) {{
    const box = node.getBoundingClientRect(), type = node.localName === 'input' ? node.type : '';
    if (found.length >= 100) break;
    if (!box.width || !box.height || node.disabled === true || ['hidden', 'file', 'password'].includes(type)) continue;
    if (!node.checkVisibility({{opacityProperty: true, visibilityProperty: true}})) continue;
    if (node.localName === 'a' && node.host && node.host !== location.host) continue;
    const label = node.labels?.[0]?.innerText || node.getAttribute('aria-label') || node.getAttribute('placeholder')
      || node.getAttribute('title') || node.getAttribute('name');
    let kind = node.localName === 'a' ? 'link' : 'button', text = node.innerText || label, value = '';
    if (node.localName === 'select') {{
      kind = 'list';
      text = Array.from(node.options).slice(0, 30).map(each => clean(each.label)).join(' | ');
      value = clean(node.selectedOptions[0]?.label);
    }} else if (['checkbox', 'radio'].includes(type)) {{
      [kind, text, value] = [type, label, node.checked ? 'on' : ''];
    }} else if (['submit', 'button', 'reset', 'image'].includes(type)) text = node.value || label;
    else if (['input', 'textarea'].includes(node.localName)) [kind, text, value] = ['field', label, clean(node.value)];
    found.push([path(node), kind, kind === 'list' ? text : clean(text), value]);
  }}
  return found;
}})()"""
_CHOOSE = f"""(([wanted, selectors]) => {{
  const path = {_PATH}, clean = text => String(text).replace(/\\s+/g, ' ').trim().toLowerCase();
  return selectors.findIndex(([css, text]) => {{
    const found = Array.from(document.querySelectorAll(css));
    const named = found.filter(each => !text || clean(each.textContent).includes(clean(text)));
    return named.length > 0 && path(named[0]) === wanted;
  }});
}})(ARGUMENTS)"""


async def perform_prompt(visit: Visit, prompt: str, endpoint: Endpoint | None) -> None:
    """Perform a prompt on the page of a visit, with the coordinator of its run at `endpoint`; raise VisitFailed."""
    if endpoint is None:
        raise _create_failure("only a run performs it; `spindle run` and executions are runs")
    connection = await VisitConnection.open(endpoint)
    try:
        await _PromptedSteps(visit, connection, prompt).perform()
    finally:
        connection.close()


class _PromptedSteps:
    """The steps of one prompt on one page, which stay on its site."""

    def __init__(self, visit: Visit, connection: VisitConnection, prompt: str) -> None:
        self._visit = visit
        self._connection = connection
        self._prompt = prompt
        self._url = visit.page.url
        self._open = OpenRequests(visit.page)

    async def perform(self) -> None:
        """Replay the recorded steps, or record some; where a replay fails, open the page again and record others."""
        with self._open:
            await self._perform()

    async def _perform(self) -> None:
        found = await self._find()
        if not found.is_wanted:
            try:
                await self._replay(found)
            except (PlaywrightError, VisitFailed):
                await self._visit.go(self._url)
                found = await self._find(found.version)
                if not found.is_wanted:
                    await self._replay(found)
        if found.is_wanted:
            await self._record()

    async def _find(self, failed: int = -1) -> Steps:
        page = await self._visit.read()
        answer = await self._connection.ask(StepsWanted(self._prompt, page.url, page.body, failed))
        if not isinstance(answer, Steps) or answer.error:
            raise _create_failure(answer.error if isinstance(answer, Steps) else "the run has no steps")
        return answer

    async def _replay(self, found: Steps) -> None:
        for step in json.loads(found.steps):
            await self._act(_make_action(step))

    async def _record(self) -> None:
        try:
            steps = await self._record_steps()
        except (PlaywrightError, VisitFailed) as failure:
            await self._connection.ask(StepsDone(error=format_error(failure).removeprefix(_PREFIX)))
            raise
        await self._connection.ask(StepsDone(json.dumps(steps)))

    async def _record_steps(self) -> list[dict[str, Any]]:
        steps: list[dict[str, Any]] = []
        failed = False
        while (step := await self._ask(failed)) is not None:
            try:
                await self._act(_make_action(step))
            except PlaywrightTimeout:  # something may cover the element: the model is told
                failed = True
            else:
                failed = False
                steps.append(step)
        return steps

    async def _ask(self, failed: bool) -> dict[str, Any] | None:
        """Return the next step as an entry of a trace; None when the prompt is done."""
        controls = [Control(*each) for each in await self._visit.evaluate(_LIST) or ()]
        page = await self._visit.read()
        step = await self._connection.ask(StepWanted(controls, page.body, failed))
        if not isinstance(step, NextStep) or step.error:
            raise _create_failure(step.error if isinstance(step, NextStep) else "the run has no steps")
        match step.action:
            case "done":
                return None
            case "wait":
                return {"action": "wait", "params": {"seconds": 1}}
            case "scroll_to_bottom":
                return {"action": "scroll_to_bottom", "params": {}}
            case _:
                selector = await self._choose_selector(step, controls[step.control - 1].path)
                text = {"type": {"text": step.text}, "select": {"value": step.text}}.get(step.action, {})
                params = {"selector": selector, **text, "timeout": _STEP_SECONDS}
                return {"action": step.action, "params": params}

    async def _choose_selector(self, step: NextStep, path: str) -> str:
        """Return the most stable selector that finds the control on the page as the browser has it."""
        arguments = json.dumps([path, step.selectors])
        chosen: object = await self._visit.evaluate(_CHOOSE.replace("ARGUMENTS", arguments))
        if not isinstance(chosen, int) or chosen < 0:
            raise _create_failure(f"the element of its step '{step.action}' is gone")
        css, text = step.selectors[chosen]
        return f"{css}:has-text({json.dumps(text, ensure_ascii=False)})" if text else css

    async def _act(self, action: Action) -> None:
        await action.perform(self._visit)
        await self._wait_until_quiet()
        if urlsplit(self._visit.page.url).netloc != urlsplit(self._url).netloc:
            raise _create_failure("a step led to another site, where it is not performed")

    async def _wait_until_quiet(self) -> None:
        """Wait until what a step has started is over: further requests, a navigation, new elements."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        end, since, count = now + _MOST_SECONDS, now, -1
        while loop.time() < min(end, since + _QUIET_SECONDS):
            await asyncio.sleep(_TICK)
            try:
                found = await self._visit.evaluate(_COUNT) or 0
            except PlaywrightError:  # the page is navigating
                found = -1
            if found != count or self._open or found < 0:
                count, since = found, loop.time()


def _make_action(step: dict[str, Any]) -> Action:
    action = read_action(step)
    if not isinstance(action, Action):
        raise _create_failure("a recorded step is not an action")
    return action


def _create_failure(reason: str) -> VisitFailed:
    return VisitFailed(f"{_PREFIX}{reason}")
