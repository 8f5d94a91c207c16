"""Requests of the service to addresses that users name: which it may call, and within which limits.

The requests are those of pipelines.http_client.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from urllib.parse import urlsplit

from core.errors import BadInput, Unavailable
from core.infra.settings import Settings
from pipelines.fetch import canonical_url
from pipelines.http_client import client
from pipelines.http_client.client import FileBody, HttpResponse, StreamBroken, is_host_name
from pipelines.http_client.guard import ALL_NETWORKS, Guard, GuardRefused
from pipelines.http_client.handles import TimeLimits

CONNECT_SECONDS = 5.0
TOTAL_SECONDS = 15.0
MAX_BODY = 256 * 2**10
MAX_URL_LENGTH = 2048
DEFAULT_PORTS = {"http": 80, "https": 443}


def send_request(
    settings: Settings,
    method: str,
    url: str,
    headers: Mapping[str, str],
    body: bytes | FileBody | None = None,
    max_bytes: int = MAX_BODY,
) -> HttpResponse:
    """Send a request and wait for the response. Failures are responses without a status.

    It takes up to 15 s; with a file as its body, as long as bytes flow.
    """
    guard, limits = _make_guard(settings, url), TimeLimits(CONNECT_SECONDS, TOTAL_SECONDS)
    return client.send_request(guard, method, url, headers, body, limits, max_bytes)


def open_stream(settings: Settings, url: str, headers: Mapping[str, str]) -> tuple[HttpResponse, Generator[bytes]]:
    """Send a GET request, follow redirects, and return the response with a generator of its body.

    The generator raises Unavailable when the connection breaks; close it to end the transfer.
    """
    guard = _make_guard(settings, url)
    response, chunks = client.open_stream(guard, url, headers, TimeLimits(CONNECT_SECONDS), MAX_BODY)
    return response, _explain_breaks(chunks)


def _explain_breaks(chunks: Generator[bytes]) -> Generator[bytes]:
    try:
        yield from chunks
    except StreamBroken as error:
        raise Unavailable(client.describe_failure(str(error))) from error


def check_target_url(settings: Settings, url: str, path: str) -> str:
    """Return the canonical form of a URL that the service is to call later, from the field `path`.

    Raise BadInput for one that it never may. Host names are checked with every connection.
    """
    address = _parse_address(url, path)
    _check_address(_make_guard(settings, address), address, path)
    return address


def check_endpoint(settings: Settings, url: str, path: str) -> None:
    """Check the address of a provider's server as `check_target_url` does; the service's own addresses are none.

    The server of the service's bucket may have buckets of users too.
    """
    own = [] if url.rstrip("/") == (settings.storage.s3_endpoint or "").rstrip("/") else settings.own_endpoints
    _check_address(Guard(settings.fetch.allow_networks, own), _parse_address(url, path), path)


def _parse_address(url: str, path: str) -> str:
    address = canonical_url(url)
    if address is None or len(address) > MAX_URL_LENGTH:
        sentence = f"'{path}' is an http or https address of at most {MAX_URL_LENGTH} characters."
        raise BadInput(sentence, path=path)
    if "@" in urlsplit(address).netloc:
        raise BadInput(f"'{path}' contains a user name or password, which every reader of it would see.", path=path)
    return address


def _check_address(guard: Guard, address: str, path: str) -> None:
    host, port = _parse_origin(address)[1:]
    try:
        if host is not None and not is_host_name(host):
            guard.check(host, port)
    except GuardRefused as refused:
        sentence = f"'{path}' leads to an address that this service may not call: {refused}."
        raise BadInput(sentence, code="address-refused", path=path) from refused


def is_own_url(settings: Settings, url: str) -> bool:
    """Return whether the URL belongs to this service, which may be in a private network."""
    return _parse_origin(url) == _parse_origin(settings.api.url)


def _make_guard(settings: Settings, url: str) -> Guard:
    """Return the guard of requests to the URL: of the service's own ports, only the API's own address is allowed."""
    if is_own_url(settings, url):
        return Guard(ALL_NETWORKS)
    return Guard(settings.fetch.allow_networks, settings.own_endpoints)


def _parse_origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or DEFAULT_PORTS.get(parts.scheme)
