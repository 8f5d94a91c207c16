from __future__ import annotations

import pytest

from pipelines.fetch import FetchOptions, HttpFetcher, Page
from pipelines.http_client.guard import SPARK_PAGE_PORTS, Guard, GuardRefused
from tests.support.bad_server import BadServer
from tests.support.cases import each_case

REFUSED = {
    "a loopback address": ["127.0.0.1", "127.0.0.2", "127.255.255.255", "::1"],
    "a private address": [
        "10.0.0.1",
        "10.255.255.255",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.0.1",
        "192.168.255.255",
        "fc00::1",
        "fd12:3456::1",
        "fdff:ffff::1",
        "fec0::1",
        "feff::1",
    ],
    "a link-local address": ["169.254.0.1", "169.254.255.255", "fe80::1", "fe80::1%eth0", "febf::1"],
    "a cloud's metadata address": [
        "169.254.169.254",
        "169.254.170.2",
        "100.100.100.200",
        "168.63.129.16",
        "fd00:ec2::254",
    ],
    "a shared address": ["100.64.0.1", "100.127.255.255"],
    "an unspecified address": ["0.0.0.0", "0.1.2.3", "::"],
    "a multicast address": ["224.0.0.1", "239.255.255.255", "ff02::1", "ff05::2"],
    "a reserved address": ["240.0.0.1", "255.255.255.255", "192.0.0.8", "198.18.0.1", "198.19.255.255", "100::1"],
    "a documentation address": ["192.0.2.1", "198.51.100.7", "203.0.113.9", "2001:db8::1", "3fff::1"],
    "a tunnel address": ["2002:808:808::1", "2001:0:808:808:0:0:f7f7:f7f7", "64:ff9b:1::808:808", "192.88.99.1"],
    "not an IP address": ["", "localhost", "127.0.0.1.", "0x7f000001", "2130706433", "127.1"],
}
INNER = {
    "::ffff:127.0.0.1": "a loopback address",
    "::ffff:7f00:1": "a loopback address",
    "::ffff:10.1.2.3": "a private address",
    "::ffff:a9fe:a9fe": "a cloud's metadata address",
    "::ffff:0:127.0.0.1": "a loopback address",
    "::ffff:0:a9fe:a9fe": "a cloud's metadata address",
    "::127.0.0.1": "a loopback address",
    "::7f00:1": "a loopback address",
    "::8.8.8.8": "a reserved address",
    "64:ff9b::127.0.0.1": "a loopback address",
    "64:ff9b::a9fe:a9fe": "a cloud's metadata address",
    "64:ff9b::c0a8:1": "a private address",
    "2002:7f00:1::": "a loopback address",
    "2002:c0a8:101::1": "a private address",
    "2001:0:0:0:0:0:80ff:fffe": "a loopback address",
}
PUBLIC = [
    "8.8.8.8",
    "1.1.1.1",
    "9.255.255.255",
    "11.0.0.1",
    "100.63.255.255",
    "100.128.0.1",
    "126.255.255.255",
    "128.0.0.1",
    "172.15.255.255",
    "172.32.0.1",
    "192.167.255.255",
    "192.169.0.1",
    "223.255.255.255",
    "2606:4700::1111",
    "2a00:1450::1",
    "::ffff:8.8.8.8",
    "64:ff9b::8.8.8.8",
]


@each_case(
    ("address", "kind"),
    [(address, kind) for kind, addresses in REFUSED.items() for address in addresses] + list(INNER.items()),
)
def test_addresses_that_are_not_public_are_refused(address: str, kind: str) -> None:
    with pytest.raises(GuardRefused, match=f" is {kind}"):
        Guard().check(address)


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_pass(address: str) -> None:
    Guard().check(address)


@pytest.mark.parametrize("address", ["127.0.0.1", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::"])
def test_an_allowed_network_lifts_the_guard_also_for_ipv6_spellings_of_it(address: str) -> None:
    Guard(["127.0.0.0/8"]).check(address)


@pytest.mark.parametrize("address", ["127.0.0.2", "10.0.0.1", "::1", "169.254.169.254"])
def test_an_allowed_network_lifts_the_guard_for_nothing_else(address: str) -> None:
    with pytest.raises(GuardRefused):
        Guard(["127.0.0.1/32"]).check(address)


def test_an_invalid_network_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"'everything' is not a network such as 10\.0\.0\.0/8"):
        Guard(["everything"])


def fetch_one(url: str, **options: object) -> Page:
    with HttpFetcher(FetchOptions(retries=0, **options)) as fetcher:
        ((page, _),) = fetcher.fetch([(url, None)])
    return page


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.1",
        "127.0.1",
        "2130706433",
        "0x7f000001",
        "0x7f.0.0.1",
        "0177.0.0.1",
        "017700000001",
        "127.0.0.1.",
        "localhost",
        "localhost.",
        "LOCALHOST",
        "[::1]",
        "[0:0:0:0:0:0:0:1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::]",
        "0.0.0.0",
        "0",
        "%31%32%37.0.0.1",
        "①②⑦.0.0.1",
        "user:secret@127.0.0.1",
    ],
)
def test_no_spelling_of_a_loopback_address_is_connected_to(host: str, bad_server: BadServer) -> None:
    page = fetch_one(f"http://{host}:{bad_server.port}/good")
    assert page.error.startswith("refused: ")
    assert page.body == b""
    assert bad_server.connections == 0


def test_the_address_behind_a_name_is_not_revealed(bad_server: BadServer) -> None:
    sentence = "refused: {}, which pages are not fetched from"
    named = fetch_one(f"http://localhost:{bad_server.port}/good")
    assert named.error == sentence.format("localhost has a loopback address")
    written = fetch_one(f"http://127.0.0.1:{bad_server.port}/good")
    assert written.error == sentence.format("127.0.0.1 is a loopback address")
    assert fetch_one(f"http://[::1]:{bad_server.port}/").error == sentence.format("::1 is a loopback address")


@pytest.mark.parametrize("code", ["301", "302", "303", "307", "308"])
@pytest.mark.parametrize(
    "target", ["http://127.0.0.2:{port}/good", "http://[::1]:{port}/good", "//2130706434:{port}/good"]
)
def test_a_redirect_to_a_private_address_is_refused(target: str, code: str, bad_server: BadServer) -> None:
    to = target.format(port=bad_server.port)
    page = fetch_one(bad_server.url(f"/redirect?code={code}&to={to}"), allow_networks=("127.0.0.1/32",))
    assert page.error.startswith("refused: ")
    assert "which pages are not fetched from" in page.error
    assert bad_server.requests["/good"] == 0


@pytest.mark.parametrize(
    "target", ["file:///etc/passwd", "ftp://127.0.0.1/x", "gopher://127.0.0.1/x", "dict://127.0.0.1/x"]
)
def test_a_redirect_leads_to_http_and_https_only(target: str, bad_server: BadServer) -> None:
    page = fetch_one(bad_server.url(f"/redirect?to={target}"), allow_networks=("127.0.0.1/32",))
    assert page.error is not None
    assert "neither http nor https" in page.error
    assert page.body == b""


def test_a_proxy_in_the_environment_is_not_used(bad_server: BadServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    assert fetch_one(bad_server.url("/good"), allow_networks=("127.0.0.1/32",)).ok


def test_pages_of_drivers_on_this_machine_are_refused_whatever_is_allowed() -> None:
    guard = Guard(("0.0.0.0/0", "::/0"))
    for address in ("127.0.0.1", "127.0.0.9", "::1", "::ffff:127.0.0.1"):
        for port in (SPARK_PAGE_PORTS.start, SPARK_PAGE_PORTS.stop - 1):
            with pytest.raises(GuardRefused, match="an address of this service itself"):
                guard.check(address, port)
        guard.check(address, SPARK_PAGE_PORTS.stop)
    guard.check("8.8.8.8", SPARK_PAGE_PORTS.start)


def test_only_the_service_itself_is_refused_at_its_port() -> None:
    guard = Guard(("10.0.0.0/8",), own_endpoints=(("10.1.1.1", 8080),))
    with pytest.raises(GuardRefused, match="this service itself"):
        guard.check("10.1.1.1", 8080)
    guard.check("10.1.1.1", 8081)
    guard.check("10.1.1.2", 8080)
