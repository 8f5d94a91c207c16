"""Actions that read documents, keep the JSON that a page requests, and take pictures."""

from __future__ import annotations

from pydantic import Field, field_validator

from pipelines.browser.actions import Action, Visit, register_action
from pipelines.extract.patterns import PatternText


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
    `timeout` seconds. A page without such an answer fails, and says which addresses its scripts asked instead.
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


@register_action("screenshot")
class Screenshot(Action):
    """Takes a PNG of the window, or of the `fullPage`, as a file whose path is in a column; images are loaded for it.

    On a server the path is `files/` and the SHA-256 of the file: GET …/executions/{id}/files/{sha256} returns it. With
    `spindle run` it is in the folder of downloads, for example `rows_files` for `-o rows.csv`.
    """

    example = "[{action: screenshot, params: {as: picture, fullPage: true}}]"

    sees_images = True
    as_: str = Field("screenshot", alias="as", min_length=1)
    full_page: bool = Field(False, alias="fullPage")

    @field_validator("as_")
    @classmethod
    def _check_column(cls, value: str) -> str:
        if value.startswith("_"):
            raise ValueError("a screenshot's column cannot begin with _; the engine's own do")
        return value

    def columns(self) -> tuple[tuple[str, str], ...]:
        return ((self.as_, "string"),)

    async def perform(self, visit: Visit) -> None:
        visit.keep(self.as_, await visit.page.screenshot(full_page=self.full_page))
