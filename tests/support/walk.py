"""A person at a page of the console, in Chromium."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect


@dataclass
class Walk:
    """A person at a page: what the browser complains about, and a picture and axe's verdict of each page."""

    page: Page
    folder: Path
    complaints: list[str] = field(default_factory=list[str])

    def sign_in(self, base_url: str, key: str) -> None:
        self.page.goto(base_url)
        self.page.get_by_label("API key").fill(key)
        self.page.keyboard.press("Enter")
        expect(self.page.get_by_role("heading", name="Running now")).to_be_visible()

    def look(self, name: str) -> None:
        """Take a picture of the page, and let axe look for barriers."""
        self.page.screenshot(path=self.folder / f"console_{name}.png", full_page=True)
        found = Axe().run(self.page).response["violations"]
        barriers = [f"{each['id']}: {each['nodes'][0]['html'][:200]}" for each in found]
        self.complaints += [f"{name}: {each}" for each in barriers]
