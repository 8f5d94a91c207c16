"""Actions that read documents, keep the JSON that a page requests, and take pictures."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field

from pipelines.browser.actions import Action, Visit, register_action
from pipelines.extract.patterns import PatternText
from pipelines.language.columns import JSON


@register_action("snapshot")
class Snapshot(Action):
    """Reads the page as it is now. Each snapshot gives a row; without any, the page at the trace's end does."""

    example = "[{action: snapshot}, {action: click, params: {selector: a.next}}, {action: snapshot}]"

    takes_snapshot = True

    async def perform(self, visit: Visit) -> None:
        await visit.snapshot()


@register_action("capture")
class Capture(Action):
    """Takes the JSON that the page's scripts request, in place of the page: a row for each answer, read by `$.paths`.

    `url` is a regular expression that matches somewhere in the addresses. All answers of the visit count, from its
    beginning to the end of the trace, wherever the action is; there it waits until `atLeast` of them are there, for
    `timeout` seconds. A page with fewer fails, and names other addresses that its scripts asked.
    """

    example = "[{action: capture, params: {url: /api/products}}]"

    url: PatternText
    at_least: int = Field(1, alias="atLeast", ge=1, le=1000)
    timeout: float = Field(10, gt=0, le=600)

    def title(self) -> str:
        return self.url

    def patience(self) -> float:
        return self.timeout

    @property
    def captures(self) -> str:
        return self.url

    async def perform(self, visit: Visit) -> None:
        await visit.wait_for_captured(self.url, self.at_least, self.timeout)


def _check_column(value: str) -> str:
    if value.startswith("_"):
        raise ValueError("an action's column cannot begin with _; the engine's own do")
    return value


ActionColumn = Annotated[str, Field(min_length=1), AfterValidator(_check_column)]


@register_action("evaluate")
class Evaluate(Action):
    """Runs a `script` in the page, or the current frame, and keeps its value in a column: text, a number or JSON.

    The script is an expression, such as `window.__STATE__.product`, which may be a promise. `spindle run` and `spindle
    try` do it; a server does it for the organizations that its operator lists in SPINDLE_SCRIPTS, and refuses the
    execution of others.
    """

    example = "[{action: evaluate, params: {script: document.title, as: title}}]"

    runs_script: ClassVar[bool] = True
    script: str = Field(min_length=1, max_length=100_000)
    as_: ActionColumn = Field(alias="as")
    timeout: float = Field(10, gt=0, le=600)

    def title(self) -> str:
        return self.as_

    def patience(self) -> float:
        return self.timeout

    def columns(self) -> tuple[tuple[str, str], ...]:
        return ((self.as_, JSON),)

    async def perform(self, visit: Visit) -> None:
        await visit.run_script(self.as_, self.script, self.timeout)


@register_action("screenshot")
class Screenshot(Action):
    """Takes a PNG of the window, or of the `fullPage`, as a file whose path is in a column; images are loaded for it.

    On a server the path is `files/` and the SHA-256 of the file: GET …/executions/{id}/files/{sha256} returns it. With
    `spindle run` it is in the folder of downloads, for example `rows_files` for `-o rows.csv`.
    """

    example = "[{action: screenshot, params: {as: picture, fullPage: true}}]"

    sees_images = True
    as_: ActionColumn = Field("screenshot", alias="as")
    full_page: bool = Field(False, alias="fullPage")

    def columns(self) -> tuple[tuple[str, str], ...]:
        return ((self.as_, "string"),)

    async def perform(self, visit: Visit) -> None:
        visit.keep(self.as_, await visit.page.screenshot(full_page=self.full_page))
