"""`spindle login`: a login that a person makes once in a visible browser, or the state file of another browser."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cli.client import ClientError, Connection, connect
from pipelines.browser.model import BrowserOptions, NoBrowser
from pipelines.errors import RunError
from pipelines.fetch import canonical_url
from pipelines.login import LOGIN, LOGIN_VARIABLE, Login, add_signs

_CREDENTIALS = "/cloud-credentials"


def record_login(
    connection: Connection,
    url: str,
    name: str | None,
    state: Path | None,
    signs: tuple[str | None, str | None],
    output: Path | None,
) -> int:
    """Record a login at `url`, or read it from the file `state`, and keep it; raise ClientError.

    `signs` are a selector and a pattern of addresses of pages without a login. With an `output` file it is kept there.
    """
    text = read_login(url, state, signs, lambda: input("Log in there, then press Enter here. "))
    if output:
        return _write_login(output, text)
    return _keep_login(connection, name or urlsplit(url).hostname or url, text)


def read_login(url: str, state: Path | None, signs: tuple[str | None, str | None], wait: Callable[[], object]) -> str:
    """Return the text of a login, recorded at `url` until `wait` returns or read from a file; raise ClientError."""
    if not canonical_url(url):
        raise ClientError(f"'{url}' is not an http or https address.")
    try:
        found = json.loads(state.read_text()) if state else _record(url, wait)
        text = add_signs(found, *signs)
        Login.from_json(text)
    except OSError as error:
        raise ClientError(f"{state} cannot be read: {error.strerror}.") from None
    except (ValueError, TypeError) as error:
        # an error of JSON shows its place, not the text
        raise ClientError(f"The login cannot be kept: {error}.") from None
    return text


def _write_login(file: Path, text: str) -> int:
    """Write a login to a file that nobody else can read, for runs without a server."""
    try:
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as stream:
            stream.write(text)
        file.chmod(0o600)
    except OSError as error:
        raise ClientError(f"{file} cannot be written: {error.strerror}.") from None
    print(f"The login is in {file}; {LOGIN_VARIABLE}={file} gives it to `spindle run` and `spindle try`")
    return 0


def _keep_login(connection: Connection, name: str, text: str) -> int:
    """Keep a login as a credential of the organization, in place of an earlier one of this name."""
    with connect(connection) as client:
        known = (each for each in client.get(_CREDENTIALS) if _is_login(each, name))
        body = {"name": name, "provider": LOGIN, "apiSecret": text}
        if found := next(known, None):
            client.put(f"{_CREDENTIALS}/id/{found['id']}", body)
        else:
            client.post(_CREDENTIALS, body)
    print(f"The login '{name}' is kept; pipelines use it by spindle: {{login: {name}}}")
    return 0


def _is_login(credential: dict[str, Any], name: str) -> bool:
    return credential["provider"] == LOGIN and credential["name"] == name and not credential.get("global")


def _record(url: str, wait: Callable[[], object]) -> Any:
    """Open a window at `url`, and return its storage state once `wait` returns."""
    if sys.platform.startswith("linux") and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        raise ClientError(
            "There is no display to show a browser on. Record the login on a machine with one, or give the storage "
            "state of a browser (Playwright's storage_state) by --state FILE."
        )
    try:
        return record_state(BrowserOptions.from_environment().find_executable(shows_windows=True), url, wait)
    except (NoBrowser, RunError) as error:
        raise ClientError(f"{error}.") from None


def record_state(path: str, url: str, wait: Callable[[], object], headless: bool = False) -> Any:
    """Return the storage state of the browser at `path` after `wait`, with `url` open; raise RunError."""
    from playwright.sync_api import Error, sync_playwright

    flags = [] if os.geteuid() else ["--no-sandbox"]
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=path, args=flags, headless=headless)
            context = browser.new_context(no_viewport=True)
            context.new_page().goto(url)
            wait()
            return context.storage_state()
    except Error as error:
        raise RunError(f"the login was not recorded: {error.message.splitlines()[0]}") from None
