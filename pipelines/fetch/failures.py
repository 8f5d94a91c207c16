"""Failed fetches: the sentence for the row's `_error`, and whether a retry may help."""

from __future__ import annotations

import pycurl

from pipelines.fetch.fetcher import FetchOptions
from pipelines.fetch.urls import origin

# CURLE_HTTP2_STREAM, CURLE_PROXY and CURLE_TOO_LARGE, which pycurl does not name
_HTTP2_STREAM = 92
_PROXY = 97
_HEADER_TOO_LARGE = 100

# A retry may help: the connection failed or broke.
_RETRYABLE_ERRORS = frozenset(
    (
        pycurl.E_COULDNT_RESOLVE_HOST,
        pycurl.E_COULDNT_RESOLVE_PROXY,
        _PROXY,
        pycurl.E_COULDNT_CONNECT,
        pycurl.E_SEND_ERROR,
        pycurl.E_RECV_ERROR,
        pycurl.E_GOT_NOTHING,
        pycurl.E_PARTIAL_FILE,
        pycurl.E_HTTP2,
        _HTTP2_STREAM,
    )
)

UNDECODABLE = "the page cannot be decompressed"
UNEXPECTED_NOT_MODIFIED = "the server answered 304 (not modified) to a request without conditions"
_SENTENCES = {
    pycurl.E_UNSUPPORTED_PROTOCOL: "{where} does not speak HTTP",
    pycurl.E_COULDNT_RESOLVE_HOST: "could not find the host {host}",
    pycurl.E_COULDNT_CONNECT: "could not connect to {where}",
    pycurl.E_FTP_WEIRD_SERVER_REPLY: "{where} does not speak HTTP",
    pycurl.E_PARTIAL_FILE: "{where} closed the connection before the end of the page",
    pycurl.E_GOT_NOTHING: "{where} closed the connection without an answer",
    pycurl.E_SEND_ERROR: "the connection to {where} broke",
    pycurl.E_RECV_ERROR: "the connection to {where} broke",
    pycurl.E_HTTP2: "the connection to {where} broke",
    _HTTP2_STREAM: "the connection to {where} broke",
    _HEADER_TOO_LARGE: "the header of the answer of {where} is too large",
    pycurl.E_BAD_CONTENT_ENCODING: UNDECODABLE,
    pycurl.E_PEER_FAILED_VERIFICATION: "the certificate of {host} is not trusted",
    pycurl.E_SSL_CONNECT_ERROR: "could not agree on encryption with {where}",
}


def describe_curl_error(code: int, detail: str, where: str, options: FetchOptions) -> str:
    """Return the sentence for libcurl's error `code` with its message `detail`; `where` is host:port."""
    host = where.rpartition(":")[0]
    by_proxy = code in (pycurl.E_COULDNT_RESOLVE_PROXY, pycurl.E_COULDNT_CONNECT, _PROXY) or "CONNECT" in detail
    if options.proxies and by_proxy:
        return f"no proxy could connect to {where}"
    if code == pycurl.E_OPERATION_TIMEDOUT:
        if detail.startswith(("Connection", "Resolving", "SSL", "Failed")):
            return f"could not connect to {where} within {options.connect_timeout:g} s"
        if detail.startswith("Operation too slow"):
            return f"{where} stopped sending for {options.first_byte_timeout:g} s"
        return f"timed out after {options.total_timeout:g} s"
    if code == pycurl.E_PEER_FAILED_VERIFICATION and "subject name" in detail:
        return f"the certificate of {host} is for another name"
    template = _SENTENCES.get(code, "could not fetch from {where} (libcurl error {code})")
    return template.format(where=where, host=host, code=code)


def describe_missing_answer(where: str, options: FetchOptions) -> str:
    return (
        f"{where} did not answer within {options.first_byte_timeout:g} s; 'spindle: {{timeout: SECONDS}}' waits longer"
    )


def describe_bad_redirect(target: str | None, where: str) -> str:
    """Return the sentence for a redirect to `target`, None when that is no URL."""
    reason = "something that is not a URL" if target is None else "a URL that is neither http nor https"
    return f"{where} redirects to {reason}"


def describe_foreign_redirect(where: str, target: str) -> str:
    """Return the sentence for a redirect that asks to send a body to another site."""
    return f"{where} redirects the request with its body to another site, {origin(target)}"


def describe_too_many_redirects(options: FetchOptions) -> str:
    return f"redirects more than {options.max_redirects} times"


def describe_too_large(options: FetchOptions) -> str:
    return f"the page is larger than {options.max_body:,} bytes"


def is_retryable_error(code: int) -> bool:
    return code in _RETRYABLE_ERRORS
