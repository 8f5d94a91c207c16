"""What went wrong with a fetch: a sentence for the row, and whether another try may help."""

from __future__ import annotations

import time

import pycurl

from pipelines.fetch.dates import http_date
from pipelines.fetch.options import FetchOptions

# CURLE_HTTP2_STREAM and CURLE_TOO_LARGE, which pycurl does not name
_HTTP2_STREAM = 92
_TOO_LARGE = 100

# Another try may bring an answer: the connection failed or broke, or the server was overloaded.
_PASSING_ERRORS = frozenset(
    (
        pycurl.E_COULDNT_RESOLVE_HOST,
        pycurl.E_COULDNT_CONNECT,
        pycurl.E_SEND_ERROR,
        pycurl.E_RECV_ERROR,
        pycurl.E_GOT_NOTHING,
        pycurl.E_PARTIAL_FILE,
        pycurl.E_HTTP2,
        _HTTP2_STREAM,
    )
)
_PASSING_STATUSES = frozenset((429, 502, 503, 504))

_UNDECODABLE = "the page cannot be decompressed"
_SENTENCES = {
    pycurl.E_UNSUPPORTED_PROTOCOL: "{where} does not speak HTTP",
    pycurl.E_COULDNT_RESOLVE_HOST: "could not find the host {host}",
    pycurl.E_COULDNT_CONNECT: "could not connect to {where}",
    pycurl.E_FTP_WEIRD_SERVER_REPLY: "{where} does not speak HTTP",
    pycurl.E_PARTIAL_FILE: "{where} closed the connection before the whole page came",
    pycurl.E_GOT_NOTHING: "{where} closed the connection without an answer",
    pycurl.E_SEND_ERROR: "the connection to {where} broke",
    pycurl.E_RECV_ERROR: "the connection to {where} broke",
    pycurl.E_HTTP2: "the connection to {where} broke",
    _HTTP2_STREAM: "the connection to {where} broke",
    _TOO_LARGE: "{where} answers with too large a header",
    pycurl.E_BAD_CONTENT_ENCODING: _UNDECODABLE,
    pycurl.E_PEER_FAILED_VERIFICATION: "the certificate of {host} is not trusted",
    pycurl.E_SSL_CONNECT_ERROR: "could not agree on encryption with {where}",
}


def sentence(code: int, detail: str, where: str, options: FetchOptions) -> str:
    """What libcurl's error `code` and words mean for the person who reads the row; `where` is host:port."""
    if code == pycurl.E_OPERATION_TIMEDOUT:
        return _timeout(detail, where, options)
    if code == pycurl.E_PEER_FAILED_VERIFICATION and "subject name" in detail:
        return f"the certificate of {where.rpartition(':')[0]} is for another name"
    template = _SENTENCES.get(code, "could not fetch from {where} (libcurl error {code})")
    host = where.rpartition(":")[0]
    return template.format(where=where, host=host, code=code)


def no_answer(where: str, options: FetchOptions) -> str:
    return f"{where} did not answer within {options.first_byte_timeout:g} s"


def astray(target: str | None, where: str) -> str:
    """A redirect that leads to no page; `target` is what it names, None when that is no address."""
    what = "something that is not an address" if target is None else "what is neither http nor https"
    return f"{where} redirects to {what}"


def too_many_redirects(options: FetchOptions) -> str:
    return f"redirects more than {options.max_redirects} times"


def undecodable() -> str:
    return _UNDECODABLE


def not_modified() -> str:
    return "not modified, says the server, though nothing was kept"


def too_large(options: FetchOptions) -> str:
    return f"the page is larger than {options.max_body:,} bytes"


def _timeout(detail: str, where: str, options: FetchOptions) -> str:
    if detail.startswith(("Connection", "Resolving", "SSL", "Failed")):
        return f"could not connect to {where} within {options.connect_timeout:g} s"
    if detail.startswith("Operation too slow"):
        return f"{where} stopped sending for {options.first_byte_timeout:g} s"
    return f"timed out after {options.total_timeout:g} s"


def passing_error(code: int) -> bool:
    return code in _PASSING_ERRORS


def passing_status(status: int) -> bool:
    return status in _PASSING_STATUSES


def retry_after(value: str) -> float | None:
    """Seconds that a Retry-After header asks for (RFC 9110, section 10.2.3); None when it says nothing usable."""
    value = value.strip()
    if value.isascii() and value.isdigit():
        return float(value[:9])
    at = http_date(value)
    return max(0.0, at.timestamp() - time.time()) if at else None
