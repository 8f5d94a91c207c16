"""One request for a page, on its way through redirects, and what the page is to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Generic, TypeVar

from pipelines.fetch.page import Page
from pipelines.fetch.urls import origin

T = TypeVar("T")
PageT = TypeVar("PageT", bound=Page)
Cookies = Sequence[Mapping[str, object]]


class Request(Generic[T]):
    """One page to fetch; `asked_url` is as the caller wrote it, `url` the same as pages are told apart, `address` where
    it is now looked for: where redirects led, which are `passed`, in all `spent` seconds, and have set the `cookies`.
    `tag` is the caller's, `key` what the cache has for the address, `kept` an old copy of the page that may be right.
    """

    __slots__ = (
        "address",
        "asked_url",
        "attempt",
        "cookies",
        "kept",
        "key",
        "origin",
        "passed",
        "spent",
        "tag",
        "url",
    )

    def __init__(self, asked_url: str, url: str, tag: T) -> None:
        self.asked_url = asked_url
        self.url = url
        self.address = url
        self.passed: tuple[str, ...] = ()
        self.spent = 0.0
        self.cookies: Cookies = ()
        self.tag = tag
        self.origin = origin(url)
        self.key = ""
        self.kept: Page | None = None
        self.attempt = 0

    def go_on(self, address: str, seconds: float, cookies: Cookies) -> None:
        """A redirect, after so many seconds; `address` is canonical."""
        self.address, self.origin = address, origin(address)
        self.passed = (*self.passed, address)
        self.spent += seconds
        self.cookies = cookies
        self.kept = None

    def may_be_led(self, most: int) -> bool:
        """Whether it need not see for itself where its address leads: a second time there it may find what is new."""
        return len(self.passed) < most and self.address not in (self.url, *self.passed)[:-1]


def as_asked(page: PageT, request: Request[T]) -> PageT:
    """`page` with the address that was asked for as the caller wrote it."""
    return page if page.requested_url == request.asked_url else replace(page, requested_url=request.asked_url)


def led_to(page: PageT, request: Request[T]) -> PageT:
    """`page`, which is kept for the address that `request` was led to, as what the request was led to."""
    if not request.passed:
        return page
    passed = request.passed if page.url != request.address else request.passed[:-1]
    return replace(page, requested_url=request.url, redirects=(*passed, *page.redirects))


def on_the_way(page: Page, request: Request[T]) -> list[Page]:
    """`page` as that of each address that `request` was led to, the last of them last; none where cookies were set."""
    if request.cookies:
        return []
    at = enumerate(request.passed, start=1)
    return [replace(page, requested_url=url, redirects=page.redirects[passed:]) for passed, url in at]
