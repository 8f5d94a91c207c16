"""Sessions: cookies that all pages of a run share, as lines of Netscape's format, which libcurl reads and writes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import pycurl

_HTTP_ONLY = "#HttpOnly_"
_MAX_COOKIES = 5000  # of all hosts; the oldest go
_MAX_COOKIE_BYTES = 8192


class Session(Protocol):
    """Cookies that the fetchers of a run share; a fetcher loads them when it begins."""

    def load(self) -> list[str]:
        """Return the cookies so far."""
        ...

    def save(self, lines: Iterable[str]) -> None:
        """Add cookies; one of the same name, domain and path replaces an earlier one."""
        ...


class LocalSession:
    """A session of one process."""

    def __init__(self) -> None:
        self._lines: dict[tuple[str, ...], str] = {}

    def load(self) -> list[str]:
        return list(self._lines.values())

    def save(self, lines: Iterable[str]) -> None:
        for line in lines:
            fields = line.removeprefix(_HTTP_ONLY).split("\t")
            if len(fields) == 7 and len(line) <= _MAX_COOKIE_BYTES:
                key = (fields[0], fields[2], fields[5])
                self._lines.pop(key, None)
                self._lines[key] = line
        while len(self._lines) > _MAX_COOKIES:
            del self._lines[next(iter(self._lines))]


def parse_cookie(line: str) -> dict[str, Any]:
    """Return a line as a cookie for Playwright."""
    domain, _, path, secure, expires, name, value = line.removeprefix(_HTTP_ONLY).split("\t")
    return {
        "name": name,
        "value": value,
        "domain": domain,
        "path": path,
        "expires": int(expires) or -1,
        "httpOnly": line.startswith(_HTTP_ONLY),
        "secure": secure == "TRUE",
    }


def format_cookie(cookie: Mapping[str, Any]) -> str:
    """Return a cookie of Playwright as a line."""
    domain = cookie["domain"]
    flags = [{True: "TRUE", False: "FALSE"}[each] for each in (domain.startswith("."), bool(cookie["secure"]))]
    expires = max(0, int(cookie["expires"]))
    fields = (domain, flags[0], cookie["path"], flags[1], str(expires), cookie["name"], cookie["value"])
    return (_HTTP_ONLY if cookie["httpOnly"] else "") + "\t".join(fields)


class CookieJar:
    """Cookies that all handles of a fetcher share, loaded from a session and saved to it as they change."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._share = pycurl.CurlShare()
        self._share.setopt(pycurl.SH_SHARE, pycurl.LOCK_DATA_COOKIE)
        self._known: set[str] | None = None

    def attach(self, curl: pycurl.Curl) -> None:
        """Let a handle use the cookies."""
        curl.setopt(pycurl.SHARE, self._share)
        curl.setopt(pycurl.COOKIEFILE, "")  # turns cookies on
        if self._known is None:
            self._known = {*self._session.load()}
            for line in self._known:
                curl.setopt(pycurl.COOKIELIST, line.encode("latin-1", "replace"))

    def save(self, curl: pycurl.Curl) -> None:
        """Save the cookies that are new since the last call."""
        lines = {line.decode("latin-1") for line in curl.getinfo_raw(pycurl.INFO_COOKIELIST)}
        if new := lines - (self._known or set()):
            self._session.save(sorted(new))
        self._known = lines
