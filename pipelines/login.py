"""A recorded login: cookies and local storage of a browser, and the signs of a page that is shown without it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self, TypeVar, cast

import regex

from pipelines.errors import RunError
from pipelines.extract import compile_selector
from pipelines.extract.patterns import compile_pattern
from pipelines.extract.selectors import SelectorError
from pipelines.fetch.blocks import LogoutSigns
from pipelines.fetch.fetcher import FetchOptions
from pipelines.fetch.session import format_cookie

LOGIN = "LOGIN"  # the provider of its credential
LOGIN_VARIABLE = "SPINDLE_LOGIN"
MAX_LOGIN_LENGTH = 96 * 1024  # characters, so that it fits into a variable of a process
_SIGNS = "loggedOut"
_MIN_SECRET, _MAX_SECRETS = 12, 100  # shorter values are no tokens
_COOKIE_TEXTS = ("name", "value", "domain", "path")
OptionsT = TypeVar("OptionsT", bound=FetchOptions)
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Login:
    """The state of a browser after a login, as Playwright's storage state has it, with `loggedOut` beside it."""

    cookies: tuple[str, ...] = field(repr=False)  # lines of Netscape's format
    origins: tuple[Json, ...] = field(repr=False)  # with their local storage
    signs: LogoutSigns = field(default_factory=LogoutSigns)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read a storage state; raise ValueError with a sentence, in which no value of the state is."""
        if len(text) > MAX_LOGIN_LENGTH:
            raise ValueError(f"a login has {MAX_LOGIN_LENGTH:,} characters at most, and this one {len(text):,}")
        try:
            state: object = json.loads(text)
        except ValueError:
            raise ValueError("a login is the JSON of a browser's storage state, and this text is no JSON") from None
        if not isinstance(state, dict):
            raise ValueError("a login is the storage state of a browser: a map with cookies and origins")
        known = cast(Json, state)
        cookies = tuple(_read_cookie(each) for each in _list_maps(known, "cookies"))
        origins = tuple(_read_origin(each) for each in _list_maps(known, "origins"))
        if not cookies and not any(each["localStorage"] for each in origins):
            raise ValueError("the login has neither cookies nor local storage: nobody was logged in")
        return cls(cookies, origins, _read_signs(known.get(_SIGNS)))

    @property
    def secrets(self) -> tuple[str, ...]:
        """The values that are long enough to be tokens."""
        stored = (item["value"] for origin in self.origins for item in origin["localStorage"])
        leaves = (leaf for value in stored for leaf in _list_leaves(value))
        values = {*(line.rpartition("\t")[2] for line in self.cookies), *leaves}
        return tuple(sorted((each for each in values if len(each) >= _MIN_SECRET), key=len)[:_MAX_SECRETS])

    def add_to(self, options: OptionsT) -> OptionsT:
        """Return the options of fetchers whose pages are shown to someone logged in."""
        stored = json.dumps(self.origins) if self.origins else ""
        return replace(options, session=True, logged_out=self.signs, local_storage=stored)


def add_signs(state: Json, selector: str | None, address: str | None) -> str:
    """Return a storage state as the text of a login, with signs in place of its own where there are any."""
    given = {"selector": selector, "address": address}
    signs = {name: value for name, value in given.items() if value}
    return json.dumps({**state, **({_SIGNS: signs} if signs else {})}, ensure_ascii=False)


def find_login(name: str | None, environment: Mapping[str, str]) -> Login | None:
    """Return the login that a pipeline names, which is in a variable or the file that this names; raise RunError."""
    if name is None:
        return None
    text = environment.get(LOGIN_VARIABLE)
    if not text:
        raise RunError(
            f"the login '{name}' is not here: `spindle login URL -o FILE` records it, and "
            f"{LOGIN_VARIABLE}=FILE names the file; a server takes it from its credentials"
        )
    try:
        return Login.from_json(text if text.lstrip().startswith("{") else Path(text).read_text())
    except OSError as error:
        raise RunError(f"{LOGIN_VARIABLE} names a file that cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise RunError(f"the login '{name}' cannot be used: {error}") from None


def _list_maps(state: Json, key: str) -> Sequence[Json]:
    found = state.get(key, [])
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in cast(list[object], found)):
        raise ValueError(f"'{key}' of a login is a list of maps")
    return cast(list[Json], found)


def _read_cookie(cookie: Json) -> str:
    texts = [cookie.get(name) for name in _COOKIE_TEXTS]
    expires = cookie.get("expires", -1)
    is_text = all(isinstance(each, str) and each.isprintable() for each in texts)
    if not (is_text and cookie["name"] and cookie["domain"] and isinstance(expires, int | float)):
        raise ValueError("a cookie of a login has name, value, domain and path, and expires in seconds")
    own = {"expires": expires, "secure": cookie.get("secure") is True, "httpOnly": cookie.get("httpOnly") is True}
    return format_cookie({**cookie, **own})


def _read_origin(origin: Json) -> Json:
    items = origin.get("localStorage", [])
    has_texts = isinstance(items, list) and all(
        isinstance(each, dict) and isinstance(each.get("name"), str) and isinstance(each.get("value"), str)
        for each in cast(list[Any], items)
    )
    if not (has_texts and isinstance(origin.get("origin"), str)):
        raise ValueError("an origin of a login has its address as 'origin', and 'localStorage' with names and values")
    stored = [{"name": each["name"], "value": each["value"]} for each in cast(list[Json], items)]
    return {"origin": origin["origin"], "localStorage": stored}


def _read_signs(signs: object) -> LogoutSigns:
    if signs is None:
        return LogoutSigns()
    known = cast(Json, signs) if isinstance(signs, dict) else {}
    selector, address = known.get("selector"), known.get("address")
    if not known or known.keys() - {"selector", "address"} or not all(isinstance(x, str) for x in known.values()):
        raise ValueError(f"'{_SIGNS}' of a login is {{selector: CSS}} or {{address: regular expression}}, or both")
    try:
        compile_selector(selector or "*")
        compile_pattern(address or "")
    except (SelectorError, regex.error, RecursionError) as error:
        raise ValueError(f"'{_SIGNS}' of a login cannot be used: {error}") from None
    return LogoutSigns(selector, address)


def _list_leaves(value: str) -> Iterator[str]:
    """Yield a text of local storage, or the texts in it where it is JSON."""
    try:
        found: object = json.loads(value) if value[:1] in ("{", "[", '"') else value
    except (ValueError, RecursionError):
        found = value
    pending = [found]
    while pending:
        match pending.pop():
            case str(text):
                yield text
            case dict(inner):
                pending.extend(cast(Json, inner).values())
            case list(inner):
                pending.extend(cast(list[object], inner))
            case _:
                pass
