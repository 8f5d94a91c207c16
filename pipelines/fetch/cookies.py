"""The cookies of a fetcher in libcurl, which matches them with hosts and paths."""

from __future__ import annotations

import pycurl

from pipelines.fetch.session import Session


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
