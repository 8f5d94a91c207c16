"""The pages of a small run, recorded beside its pipeline, from which it runs again without a network."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING
from urllib.parse import urljoin

from pipelines.errors import RunError
from pipelines.fetch.documents import split_variant
from pipelines.fetch.page import Page
from pipelines.fetch.urls import canonical_url, list_spellings, mask_secrets
from pipelines.page_cache.warc import ArchiveReading, PageArchive, mask_credentials, read_archive
from pipelines.trial import TrialPages

if TYPE_CHECKING:
    from pipelines.browser.actions import Browsing

_MAX_BODY = 64 * 1024 * 1024  # bytes
_MAX_REDIRECTS = 20
_PAGES = "pages"  # field of the archive's description: how many pages the run might request


class RecordedPages(TrialPages):
    """All pages of a run with a status, those of the browser and answers of services among them.

    `limit` is the number of pages that the run may request. Once they are complete, each is found by its address and
    request, or by its address alone where the recorded request differed, as with another key for an API. `secrets` are
    masked in addresses and bodies.
    """

    has_answers = True

    def __init__(self, limit: int, secrets: tuple[str, ...] = ()) -> None:
        super().__init__()
        self.limit = limit
        self._secrets = secrets
        self._recorded: dict[str, dict[str, Page]] = {}  # by address and variant
        self._browsing = ""

    @classmethod
    def load(cls, file: Path, secrets: tuple[str, ...] = ()) -> RecordedPages:
        """Return the pages of an archive, which are complete; raise RunError for one that cannot be read."""
        reading, found = ArchiveReading(), cls(0, secrets)
        try:
            with file.open("rb") as stream:
                for variant, page in read_archive(stream, reading, _MAX_BODY):
                    found._recorded.setdefault(page.url, {})[variant] = page
        except OSError as error:
            raise RunError(f"{file} cannot be read: {error.strerror}; `spindle record` writes it") from None
        if reading.problem:
            raise RunError(f"{file} cannot be used: {reading.problem}; `spindle record` writes it anew")
        limit = reading.about.get(_PAGES, "")
        found.limit = int(limit) if limit.isdecimal() else found.count
        found.are_complete = True
        return found

    def add_secrets(self, secrets: tuple[str, ...]) -> None:
        """Mask other values too, such as those of a login."""
        self._secrets = (*self._secrets, *secrets)

    def save(self, file: Path) -> None:
        """Write the pages as an archive, in place of an earlier one; raise OSError."""
        with NamedTemporaryFile(dir=file.parent, prefix=f".{file.name}", delete=False) as stream:
            try:
                archive = PageArchive(stream, {_PAGES: str(self.limit)}, self._secrets)
                for variant, page in self._list_pages():
                    archive.add(page, variant)
            except BaseException:
                Path(stream.name).unlink()
                raise
        Path(stream.name).chmod(0o644)
        Path(stream.name).replace(file)

    def _list_pages(self) -> Iterator[tuple[str, Page]]:
        return ((variant, page) for found in self._recorded.values() for variant, page in found.items())

    @property
    def count(self) -> int:
        return sum(map(len, self._recorded.values()))

    def select_after(self, changes: int, browsing: Browsing | None = None) -> RecordedPages:
        selected = self._select(changes)
        selected._browsing = f"browser {browsing!r}" if browsing else ""
        return selected

    def get(self, url: str, variant: str = "") -> Page | None:
        page = self._find(url, self._describe(variant))
        redirects: list[str] = []
        while page is not None and self.are_complete and (target := _find_target(page)):
            if len(redirects) >= _MAX_REDIRECTS:
                return None
            redirects.append(target)
            page = self._find(target, self._describe(variant))
        if page is None or not redirects:
            return page
        return replace(page, requested_url=url, redirects=tuple(redirects[:-1]))

    def refuse(self, url: str) -> str | None:
        return "it is not among the recorded pages: `spindle record` records it" if self.are_complete else None

    def put(self, page: Page, variant: str = "") -> None:
        if page.status is not None and page.error is None:
            self._recorded.setdefault(page.requested_url, {})[self._describe(variant)] = page

    def _find(self, url: str, variant: str) -> Page | None:
        found = self._recorded.get(url)
        if found is None and self.are_complete:
            found = self._recorded.get(mask_credentials(mask_secrets(url, list_spellings(self._secrets))))
        if found is None:
            return None
        if (page := found.get(variant)) is not None or not self.are_complete:
            return page
        number = variant.partition("-")[2]
        alike = [page for name, page in found.items() if name.partition("-")[2] == number]
        return alike[0] if len(alike) == 1 else None

    def _describe(self, variant: str) -> str:
        """Return the name of a request among those for one address, a digest: it may have secrets.

        The name of a document after the first of a visit ends with its number.
        """
        visit, number = split_variant(variant)
        parts = (self._browsing, visit, str(self._changes or ""))
        name = sha256("\n".join(parts).encode()).hexdigest()[:16] if any(parts) else ""
        return f"{name}-{number}" if number else name


def _find_target(page: Page) -> str | None:
    """Return the address that a recorded redirect leads to."""
    location = page.header("location") if page.status is not None and 300 <= page.status < 400 else None
    return canonical_url(urljoin(page.url, location)) if location else None
