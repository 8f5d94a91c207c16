"""Cookies of a session or of a chain of redirects, as lines of Netscape's format, which libcurl reads and writes."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol

import pycurl

_HTTP_ONLY = "#HttpOnly_"
_MAX_COOKIES = 5000  # of all hosts; the oldest go
_MAX_COOKIE_BYTES = 8192
_NAME, _EXPIRES = 5, 4  # places in a line, after the domain, whether subdomains get it, the path and "secure"


class Session(Protocol):
    """Cookies that the fetchers of a run share; a fetcher loads them when it begins."""

    def load(self) -> list[str]:
        """Return the cookies so far."""
        ...

    def save(self, lines: Iterable[str]) -> None:
        """Add cookies; one of the same name, domain and path replaces an earlier one, or deletes it if it is over."""
        ...


class LocalSession:
    """A session of one process."""

    def __init__(self) -> None:
        self._lines: dict[tuple[str, ...], str] = {}

    def load(self) -> list[str]:
        return list(self._lines.values())

    def save(self, lines: Iterable[str]) -> None:
        for line in lines:
            fields = _split_line(line)
            if len(fields) == 7 and len(line) <= _MAX_COOKIE_BYTES:
                self._lines.pop(_get_key(fields), None)
                if not 0 < int(fields[_EXPIRES]) <= time.time():
                    self._lines[_get_key(fields)] = line
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


def list_changes(before: Iterable[str], after: Iterable[str]) -> list[str]:
    """Return the lines that are new, and those of deleted cookies with a time in the past."""
    known, left = {*before}, {*after}
    keys = {_get_key(_split_line(line)) for line in left}
    deleted = (line for line in known - left if _get_key(_split_line(line)) not in keys)
    return [*sorted(left - known), *map(_expire, sorted(deleted))]


def _split_line(line: str) -> list[str]:
    return line.removeprefix(_HTTP_ONLY).split("\t")


def _get_key(fields: list[str]) -> tuple[str, ...]:
    return fields[0], fields[2], fields[_NAME]


def _expire(line: str) -> str:
    fields = line.split("\t")
    return "\t".join((*fields[:_EXPIRES], "1", *fields[_EXPIRES + 1 :]))


class CookieJar:
    """The cookies of a fetcher's handles.

    In a session all handles share its cookies, which are loaded from it and saved to it as they change; but a request
    with cookies of its own has a copy without those that these replace. Without one, a handle has the cookies that the
    redirects before its request have set.
    """

    def __init__(self, session: Session | None) -> None:
        self.in_session = session is not None
        self._session = session
        self._share = pycurl.CurlShare()
        self._share.setopt(pycurl.SH_SHARE, pycurl.LOCK_DATA_COOKIE)
        self._shared: pycurl.Curl | None = None  # a handle without requests, for the lines of the session
        self._known: list[str] = []
        self._started, self._attached = set[pycurl.Curl](), set[pycurl.Curl]()
        self._copies: dict[pycurl.Curl, list[str]] = {}

    def prepare(self, curl: pycurl.Curl, cookies: Sequence[str], own: Collection[str]) -> None:
        """Give a handle its cookies: those of the session but the names `own`, or `cookies` without a session."""
        if self._session is None:
            if curl not in self._started:  # to turn cookies on takes longer than all else here
                curl.setopt(pycurl.COOKIEFILE, "")
                self._started.add(curl)
            curl.setopt(pycurl.COOKIELIST, "ALL")
            _add_cookies(curl, cookies)
            return
        if self._shared is None:
            self._shared = pycurl.Curl()
            self._shared.setopt(pycurl.SHARE, self._share)
            _replace_cookies(self._shared, self._session.load())
            self._known = _list_cookies(self._shared)
        if own:
            self._attach(curl, False)
            copied = [line for line in self._known if _split_line(line)[_NAME] not in own]
            _replace_cookies(curl, copied)
            self._copies[curl] = _list_cookies(curl)
        else:
            self._copies.pop(curl, None)
            self._attach(curl, True)

    def save(self, curl: pycurl.Curl) -> None:
        """Save what the answer to a handle's request has changed in the session."""
        if self._session is None or self._shared is None:
            return
        if (copied := self._copies.get(curl)) is not None:
            _add_cookies(self._shared, list_changes(copied, _list_cookies(curl)))
        lines = _list_cookies(self._shared)
        if changed := list_changes(self._known, lines):
            self._session.save(changed)
        self._known = lines

    def list_followed(self, curl: pycurl.Curl) -> list[str]:
        """Return the cookies for the next request of a chain of redirects; none in a session, which has them."""
        return [] if self._session else _list_cookies(curl)

    def _attach(self, curl: pycurl.Curl, attached: bool) -> None:
        """Let a handle share the cookies of the session, or not."""
        if attached and curl not in self._attached:
            curl.setopt(pycurl.SHARE, self._share)
            curl.setopt(pycurl.COOKIEFILE, "")  # turns cookies on
            self._attached.add(curl)
        elif not attached and curl in self._attached:
            curl.unsetopt(pycurl.SHARE)
            self._attached.remove(curl)


def _list_cookies(curl: pycurl.Curl) -> list[str]:
    return [line.decode("latin-1") for line in curl.getinfo_raw(pycurl.INFO_COOKIELIST)]


def _replace_cookies(curl: pycurl.Curl, lines: Iterable[str]) -> None:
    curl.setopt(pycurl.COOKIEFILE, "")  # turns cookies on
    curl.setopt(pycurl.COOKIELIST, "ALL")  # deletes those of the request before
    _add_cookies(curl, lines)


def _add_cookies(curl: pycurl.Curl, lines: Iterable[str]) -> None:
    for line in lines:
        curl.setopt(pycurl.COOKIELIST, line.encode("latin-1", "replace"))
