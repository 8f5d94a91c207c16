"""What is told of a run shows no credential, as addresses spell it or where one was cut."""

from __future__ import annotations

from pathlib import Path

import pytest

from driver.secrets import MASK, Secrets
from pipelines.contract.request import RunRequest
from pipelines.fetch import FetchOptions, HttpFetcher, canonical_url
from pipelines.fetch.queue import RequestQueue
from pipelines.fetch.throttle import LocalHostThrottle, Refusal
from tests.support.cases import each_case
from tests.support.driver import spec

KEY = "wertvollesgeheimnis123456"


def secrets(value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Secrets:
    monkeypatch.setenv("SHOP_KEY", value)
    return Secrets(RunRequest.model_validate(spec(tmp_path, None, credentials={"SHOP_KEY": "c1"})))


@pytest.mark.parametrize("value", ["it's=ok pass", 'a+b&c="d"', "ü|ß^`{x}", "p@ss!word", "100%<sure>", KEY])
@pytest.mark.parametrize("before", ["http://shop.test/a/", "http://shop.test/?key="])
def test_a_value_is_hidden_as_addresses_spell_it(
    value: str, before: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hides = secrets(value, tmp_path, monkeypatch)
    address = canonical_url(f"{before}{value}&page=2")
    assert hides.mask(address) == f"{before}{MASK}&page=2"


@pytest.mark.parametrize("value", ["it's=ok pass", "ü|ß^`{x}", "p@ss!word", "a:b;c[d]", KEY])
def test_a_password_in_an_address_is_hidden(value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hides = secrets(value, tmp_path, monkeypatch)
    assert hides.mask(canonical_url(f"http://me:{value}@shop.test/")) == f"http://me:{MASK}@shop.test/"


def test_a_beginning_that_is_no_secret_by_itself_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hides = secrets("a/#longer-than-that", tmp_path, monkeypatch)
    assert hides.mask(canonical_url("http://shop.test/a/b")) == "http://shop.test/a/b"


class Forbidding(LocalHostThrottle):
    """Lets a request in, and none that a redirect led on."""

    def acquire(self, origin: str, url: str) -> bool | Refusal:
        return super().acquire(origin, url) if url == "http://shop.test/" else Refusal("forbidden by robots.txt")


@each_case("at", range(140, 200))
def test_an_address_that_an_error_shows_hides_where_a_value_was_cut(
    at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hides = secrets(KEY, tmp_path, monkeypatch)
    address = "http://shop.test/".ljust(at, "x") + KEY
    queue = RequestQueue([("http://shop.test/", None)], FetchOptions(), Forbidding(FetchOptions()))
    (request,) = queue.start(1)
    queue.redirect(request, address, 0)
    with HttpFetcher(FetchOptions()) as fetcher:
        found = [*queue.take_finished(), *fetcher.fetch([(address.replace("http", "file"), None)])]
    for page, _ in found:
        assert page.error is not None
        assert KEY[:4] in page.error or at > 195
        assert KEY[:4] not in hides.mask(page.error)
