"""Requests beyond a plain GET: which host gets what, redirects, retries, the cache."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.fetch import HttpFetcher, Page
from pipelines.fetch.requests import RequestArguments, build_template, is_same_site
from pipelines.language.parameters import ParameterText
from pipelines.page_cache.cache import ExecutionPageCache
from pipelines.page_cache.options import CacheOptions
from tests.support.fetching import options
from tests.support.request_site import RequestSite, build_do

SECRET = ParameterText("$ecret")


def send(urls: list[str], origins: list[str], cache: ExecutionPageCache | None = None, **named: object) -> list[Page]:
    template = build_template(RequestArguments.model_validate(named), RequestArguments(), bool, origins)
    assert template
    with HttpFetcher(options(retries=2), cache=cache) as fetcher:
        pages = fetcher.fetch(
            ((url, at) for at, url in enumerate(urls)), lambda url, at: template.build(url, lambda _: None, at)
        )
        found = {at: page for page, at in pages}
    return [found[at] for at in range(len(urls))]


def test_credentials_stay_at_the_hosts_that_the_pipeline_names(
    requests: RequestSite, other_requests: RequestSite
) -> None:
    headers = {"Authorization": "Bearer abcdef", "X-Api-Key": "abcdef", "Accept-Language": "de"}
    send(
        [f"{requests.url}/to?{other_requests.url}/a", f"{other_requests.url}/b"],
        [requests.url],
        headers=headers,
        cookies={"id": "abcdef"},
    )
    sent = requests.requests[0].headers
    assert {name: sent.get(name) for name in ("authorization", "x-api-key", "accept-language", "cookie")} == {
        "authorization": "Bearer abcdef",
        "x-api-key": "abcdef",
        "accept-language": "de",
        "cookie": "id=abcdef",
    }
    for received in other_requests.requests:
        assert received.headers["accept-language"] == "de"
        assert "abcdef" not in str(received)


def test_a_form_follows_no_redirect_to_another_site(requests: RequestSite, other_requests: RequestSite) -> None:
    (away, home) = send(
        [f"{requests.url}/to?{other_requests.url}/a", f"{requests.url}/to?/b"], [requests.url], form={"password": "abc"}
    )
    assert away.error is not None
    assert "another site" in away.error
    assert other_requests.requests == []
    assert home.ok
    assert (requests.get_received("/b").method, requests.get_received("/b").body) == ("POST", "password=abc")


def test_a_form_is_in_the_charset_of_its_content_type(requests: RequestSite) -> None:
    kind = "application/x-www-form-urlencoded"
    for charset, sent in (
        ("windows-1251", "q=%EB%26%2326085%3B"),
        ("utf-8", "q=%D0%BB%E6%97%A5"),
        ("no", "q=%D0%BB%E6%97%A5"),
    ):
        send([f"{requests.url}/find"], [], form={"q": "л日"}, headers={"Content-Type": f"{kind}; charset={charset}"})
        assert requests.requests[-1].body == sent
    send([f"{requests.url}/find"], [], form={"q": "л日"})
    assert requests.requests[-1].body == "q=%D0%BB%E6%97%A5"


def test_after_other_redirects_a_form_is_a_get_and_later_requests_are_plain(requests: RequestSite) -> None:
    (page,) = send([f"{requests.url}/login"], [requests.url], form={"password": SECRET, "no": None, "many": [1, 2]})
    assert page.body.startswith(b"<h1>GET / </h1>")
    assert requests.get_received("/login").body == "password=%24ecret&many=1&many=2"
    assert "content-type" not in requests.requests[-1].headers


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_a_redirect_keeps_method_and_body_as_the_standard_says(
    method: str, status: int, requests: RequestSite, other_requests: RequestSite
) -> None:
    end, away = build_do(requests.url, "end"), build_do(other_requests.url, "end")
    ways = [build_do(requests.url, "x", status=str(status), to=to) for to in (end, away)]
    home, foreign = send(ways, [requests.url], json={"a": 1}, method=method)
    is_kept = status in (307, 308) or (status in (301, 302) and method != "POST")
    assert home.body == (f'<h1>{method} {{"a": 1}} no cookie</h1>' if is_kept else "<h1>GET  no cookie</h1>").encode()
    assert (foreign.error is not None, bool(other_requests.requests)) == (is_kept, not is_kept)


def test_a_post_is_not_sent_again_unless_the_server_did_not_take_it(requests: RequestSite) -> None:
    send([f"{requests.url}/502", f"{requests.url}/503"], [], form={"a": 1})
    send([f"{requests.url}/502?put"], [], form={"a": 1}, method="put")
    paths = [each.path for each in requests.requests]
    assert {path: paths.count(path) for path in paths} == {"/502": 1, "/503": 3, "/502?put": 3}


def test_only_the_same_request_gets_a_cached_page(requests: RequestSite, tmp_path: Path) -> None:
    with ExecutionPageCache(CacheOptions(private=str(tmp_path))) as cache:
        for language in ("de", "fr", "de"):
            send([f"{requests.url}/x", f"{requests.url}/x"], [], cache, headers={"Accept-Language": language})
        assert [each.headers["accept-language"] for each in requests.requests] == ["de", "fr"]
        pages = send([f"{requests.url}/y", f"{requests.url}/y"], [], cache, json={"a": None})
        assert [page.ok for page in pages] == [True, True]
    assert [each.method for each in requests.requests if each.path == "/y"] == ["POST", "POST"], "once per row"


@pytest.mark.parametrize(
    ("address", "known", "same"),
    [
        ("http://a.test/x", "http://a.test/", True),
        ("https://a.test/x", "http://a.test/", True),
        ("http://a.test/x", "https://a.test/", False),
        ("https://api.a.test/", "https://www.a.test/", True),
        ("https://a.test.evil.test/", "https://a.test/", False),
        ("https://eviltest/", "https://test/", False),
        ("http://a.test:8080/", "http://a.test/", False),
        ("http://a.test:8080/", "http://a.test:8080/", True),
        ("https://a.test@evil.test/", "https://a.test/", False),
    ],
)
def test_a_site_is_a_host_and_those_below_it(address: str, known: str, same: bool) -> None:
    assert is_same_site(address, known) is same
