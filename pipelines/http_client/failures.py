"""Failed transfers: libcurl's errors as clauses, and whether a retry may help."""

from __future__ import annotations

import pycurl
from ada_url import URL

from pipelines.http_client.handles import TimeLimits

# CURLE_HTTP2_STREAM, CURLE_PROXY and CURLE_TOO_LARGE, which pycurl does not name
HTTP2_STREAM = 92
PROXY = 97
_HEADER_TOO_LARGE = 100

# A retry may help: the connection failed or broke.
_RETRYABLE_ERRORS = frozenset(
    (
        pycurl.E_COULDNT_RESOLVE_HOST,
        pycurl.E_COULDNT_RESOLVE_PROXY,
        PROXY,
        pycurl.E_COULDNT_CONNECT,
        pycurl.E_SEND_ERROR,
        pycurl.E_RECV_ERROR,
        pycurl.E_GOT_NOTHING,
        pycurl.E_PARTIAL_FILE,
        pycurl.E_HTTP2,
        HTTP2_STREAM,
    )
)
# HTTP/0.9, which any bytes are, and redirects to other schemes are unsupported protocols
NO_HTTP = frozenset((pycurl.E_UNSUPPORTED_PROTOCOL, pycurl.E_FTP_WEIRD_SERVER_REPLY))
_CLAUSES = {
    pycurl.E_URL_MALFORMAT: "the URL of {where} is malformed",
    pycurl.E_COULDNT_RESOLVE_HOST: "could not find the host {host}",
    pycurl.E_COULDNT_CONNECT: "could not connect to {where}",
    pycurl.E_PARTIAL_FILE: "{where} closed the connection before the end of the page",
    pycurl.E_GOT_NOTHING: "{where} closed the connection without an answer",
    pycurl.E_SEND_ERROR: "the connection to {where} broke",
    pycurl.E_RECV_ERROR: "the connection to {where} broke",
    pycurl.E_HTTP2: "the connection to {where} broke",
    HTTP2_STREAM: "the connection to {where} broke",
    _HEADER_TOO_LARGE: "the header of the answer of {where} is too large",
    pycurl.E_BAD_CONTENT_ENCODING: "the page cannot be decompressed",
    pycurl.E_PEER_FAILED_VERIFICATION: "the certificate of {host} is not trusted",
    pycurl.E_SSL_CONNECT_ERROR: "could not agree on encryption with {where}",
    pycurl.E_TOO_MANY_REDIRECTS: "{where} redirects too often",
    **dict.fromkeys(NO_HTTP, "{where} does not speak HTTP"),
}


def describe_curl_error(code: int, detail: str, where: str, limits: TimeLimits) -> str:
    """Return the clause for libcurl's error `code` with its message `detail`; `where` is host:port."""
    host = where.rpartition(":")[0]
    if code == pycurl.E_OPERATION_TIMEDOUT:
        if detail.startswith(("Connection", "Resolving", "SSL", "Failed")):
            return f"could not connect to {where} within {limits.connect:g} s"
        if detail.startswith("Operation too slow"):
            return f"{where} stopped sending for {limits.silence:g} s"
        return f"timed out after {limits.total:g} s"
    if code == pycurl.E_PEER_FAILED_VERIFICATION and "subject name" in detail:
        return f"the certificate of {host} is for another name"
    clause = _CLAUSES.get(code, "could not fetch from {where} (libcurl error {code})")
    return clause.format(where=where, host=host, code=code)


def is_retryable_error(code: int) -> bool:
    return code in _RETRYABLE_ERRORS


def get_host(curl: pycurl.Curl) -> str:
    """Return the host:port of the last request of a handle."""
    parts = URL(curl.getinfo_raw(pycurl.EFFECTIVE_URL).decode("utf-8", "replace"))
    return f"{parts.hostname}:{parts.port or ('443' if parts.protocol == 'https:' else '80')}"
