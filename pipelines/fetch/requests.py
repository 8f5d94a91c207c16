"""Requests beyond a plain GET: method, headers, cookies and body, with values from a row's columns."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import StrEnum
from hashlib import sha256
from math import isfinite
from typing import Annotated, Any, Self, cast
from urllib.parse import urlencode, urlsplit

from pydantic import AfterValidator, Field, model_validator
from webencodings import lookup as lookup_encoding

from pipelines.errors import ArgumentError
from pipelines.fetch.page import parse_content_type
from pipelines.fetch.urls import origin
from pipelines.language.arguments import Arguments
from pipelines.language.names import truncate, validate_choice
from pipelines.language.parameters import ParameterText, parse_column_reference

Lookup = Callable[[str], object]

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_SCHEME = re.compile(r"([A-Za-z]+ )(\$.+)", re.DOTALL)  # `Bearer $token`
_CREDENTIAL = re.compile(r"(?i)auth|cookie|token|secret|key|session|password|signature")
_LINE_END = b"\r\n"
_NOWHERE = "https://invalid/"  # a host that no address has
_DEFAULT_PORTS = {"http": 80, "https": 443}
_OWN_HEADERS = {
    "accept-encoding": "the engine decodes what it asks for",
    "connection": "the engine keeps connections",
    "content-length": "it follows from form or json",
    "host": "it follows from the address",
    "transfer-encoding": "it follows from form or json",
    "user-agent": "it is spindle.userAgent",
}


class Method(StrEnum):
    GET = "GET"
    POST = "POST"
    PUT = "PUT"
    PATCH = "PATCH"
    DELETE = "DELETE"


def _format_scalar(value: object) -> str:
    """Return the text of a scalar; a text from a parameter keeps its type, which makes a `$` in it literal."""
    if isinstance(value, str):
        return value
    return str(value).lower() if isinstance(value, bool) else str(value)


def _check_scalars(values: dict[str, Any]) -> dict[str, str]:
    for name, value in values.items():
        if isinstance(value, dict | list):
            raise ValueError(f"'{truncate(name)}' must be one value, not a list or map")
    return {name: _format_scalar(value) for name, value in values.items() if value is not None}


def _check_headers(values: dict[str, Any]) -> dict[str, str]:
    headers = _check_scalars(values)
    for name, value in headers.items():
        if not _TOKEN.fullmatch(name):
            raise ValueError(f"'{truncate(name)}' is not the name of a header")
        if reason := _OWN_HEADERS.get(name.lower()):
            raise ValueError(f"the header {name} cannot be set: {reason}")
        check_header_value(name, value)
    return headers


def _check_cookies(values: dict[str, Any]) -> dict[str, str]:
    cookies = _check_scalars(values)
    for name, value in cookies.items():
        if not _TOKEN.fullmatch(name):
            raise ValueError(f"'{truncate(name)}' is not the name of a cookie")
        check_header_value(name, value, ";")
    return cookies


def check_header_value(name: str, value: str, forbidden: str = "") -> str:
    """Return `value` if it may be sent in a header, else raise ValueError, without the value: it may be secret."""
    if any((each < " " and each != "\t") or each > "\xff" or each == "\x7f" or each in forbidden for each in value):
        raise ValueError(f"the value of {truncate(name)} has a character that cannot be sent in a header")
    return value


class RequestArguments(Arguments):
    """Arguments about the requests of a stage; the key `spindle` has defaults for all stages."""

    method: Annotated[Method, validate_choice("method", Method)] | None = Field(
        default=None, description="GET, or POST with form or json; other requests than GET are sent once per row"
    )
    headers: Annotated[dict[str, Any], AfterValidator(_check_headers)] = Field(
        default={}, description="`$column` as a value is the row's, also in `Bearer $column`"
    )
    cookies: Annotated[dict[str, Any], AfterValidator(_check_cookies)] = Field(default={}, description="by name")
    form: dict[str, Any] | None = Field(
        default=None,
        description="fields of a form, sent as its body in UTF-8, or in the charset of a header Content-Type",
    )
    multipart: dict[str, Any] | None = Field(
        default=None,
        description="fields of a form as multipart/form-data; a file is a map of `filename`, `content` and `type`",
    )
    json_: Any = Field(default=None, alias="json", description="the body as JSON; `$column` in it is the row's value")

    @model_validator(mode="after")
    def _check_body(self) -> Self:
        if sum(each is not None for each in (self.form, self.multipart, self.json_)) > 1:
            raise ValueError("give only one of 'form', 'multipart' and 'json'")
        if self.method is Method.GET and self.has_body:
            raise ValueError("a GET has no body: write the fields into the address, or name another method")
        return self

    @property
    def has_body(self) -> bool:
        return self.form is not None or self.multipart is not None or self.json_ is not None

    @property
    def body_values(self) -> tuple[Any, ...]:
        return self.form, self.multipart, self.json_

    @property
    def own_method(self) -> Method | None:
        """The method of these arguments, or None for the default."""
        return self.method or (Method.POST if self.has_body else None)

    def check_rendered(self) -> None:
        """Raise ArgumentError for arguments of a request, which the browser would not send."""
        if own := sorted(self.model_fields_set & RequestArguments.model_fields.keys()):
            sentence = f"the browser sends no '{own[0].rstrip('_')}' of a stage: leave it or 'render' out"
            raise ArgumentError(sentence, "conflicting-arguments")

    def list_columns(self) -> tuple[str, ...]:
        """Return the columns that the values refer to."""
        texts = (*self.headers.values(), *self.cookies.values(), *_iter_scalars([*self.body_values]))
        return tuple(dict.fromkeys(each.column for each in map(_parse_value, texts) if isinstance(each, _Column)))


@dataclass(frozen=True, slots=True)
class _Column:
    """A reference to a column, with a text before its value."""

    column: str
    prefix: str = ""


def _parse_value(value: object) -> object:
    """Return a _Column for `$name` and `Scheme $name`, anything else unchanged."""
    if not isinstance(value, str) or isinstance(value, ParameterText):
        return value
    scheme = _SCHEME.fullmatch(value)
    column = parse_column_reference(scheme[2] if scheme else value)
    return _Column(column, scheme[1] if scheme else "") if column else value


def _iter_scalars(value: object) -> Iterator[object]:
    if isinstance(value, dict):
        for each in cast("dict[str, object]", value).values():
            yield from _iter_scalars(each)
    elif isinstance(value, list):
        for each in cast("list[object]", value):
            yield from _iter_scalars(each)
    else:
        yield value


@dataclass(frozen=True, slots=True)
class _Field:
    """A header or cookie: its value, and the origins whose hosts get it (None: all; empty: the request's own)."""

    name: str
    value: object
    origins: frozenset[str] | None


@dataclass(frozen=True, slots=True)
class RequestTemplate:
    """A stage's requests, to be filled in per row."""

    method: Method
    headers: tuple[_Field, ...]
    cookies: tuple[_Field, ...]
    form: Mapping[str, Any] | None
    json: Any
    multipart: Mapping[str, Any] | None = None
    body_origins: frozenset[str] | None = None  # the origins whose hosts get the body, like those of a field

    @property
    def is_per_row(self) -> bool:
        """Whether rows with the same address may need different requests."""
        values = (*(each.value for each in (*self.headers, *self.cookies)), *_iter_scalars(self.json))
        return self.method is not Method.GET or any(isinstance(_parse_value(each), _Column) for each in values)

    @property
    def is_private(self) -> bool:
        """Whether only this run may use the answers: they may depend on credentials, or are no answers to a GET."""
        return self.method is not Method.GET or any(each.origins is not None for each in (*self.headers, *self.cookies))

    def build(
        self,
        url: str,
        lookup: Lookup,
        row: object,
        more: Mapping[str, str | int] | None = None,
        first: str | None = None,
    ) -> RequestDetails:
        """Return the request for a row; `more` are fields for its body. Raise ValueError for a bad column value.

        For a page that another one has led to, `first` is the address that the row began with.
        """
        own = first or url
        self._check_body_destination(url, own)
        headers = tuple(_resolve_fields(self.headers, own, lookup))
        cookies = tuple(_resolve_fields(self.cookies, own, lookup, ";"))
        body = self._build_body(lookup, more or {}, _find_charset(headers))
        if body is not None and not any(each.name.lower() == "content-type" for each in headers):
            kind = "application/json" if self.form is None else "application/x-www-form-urlencoded"
            if self.multipart is not None:
                kind = f"multipart/form-data; boundary={body[2:].partition(_LINE_END)[0].decode()}"
            headers = (*headers, _Field("Content-Type", kind, None))
        sender = None if self.method is Method.GET else row
        named = [(each.name, each.value) for each in (*headers, *cookies)]
        variant = sha256(repr((self.method.value, named, body, sender)).encode()).hexdigest()
        return RequestDetails(self.method.value, headers, cookies, body, variant)

    @property
    def has_body(self) -> bool:
        return self.form is not None or self.multipart is not None or self.json is not None

    def _check_body_destination(self, url: str, own: str) -> None:
        """Raise ValueError if the body must not be sent to `url`: it may have a password."""
        if self.has_body and not is_same_site(url, own):
            raise ValueError(f"the next page is at another site, {origin(url)}, which does not get the request's body")
        origins = self.body_origins
        if origins is not None and not any(is_same_site(url, each) for each in origins or (own,)):
            raise ValueError(f"the request's body has a credential, which is not sent to {origin(url)}")

    def _build_body(self, lookup: Lookup, more: Mapping[str, str | int], charset: str) -> bytes | None:
        if self.multipart is not None:
            return _encode_multipart(
                {name: _resolve(each, lookup) for name, each in self.multipart.items()} | dict(more)
            )
        if self.form is not None:
            fields = {name: _resolve(value, lookup) for name, value in self.form.items()} | dict(more)
            texts = {
                name: [_format_scalar(each) for each in cast("list[object]", value) if each is not None]
                if isinstance(value, list)
                else _format_scalar(value)
                for name, value in fields.items()
                if value is not None
            }
            return urlencode(texts, doseq=True, encoding=charset, errors="xmlcharrefreplace").encode()
        if self.json is None:
            return None
        content = _to_json(_resolve(self.json, lookup))
        for name, value in more.items() if isinstance(content, dict) else ():
            _set_member(cast("dict[str, object]", content), name, value)
        return json.dumps(content, ensure_ascii=False, default=str).encode()


@dataclass(frozen=True, slots=True)
class RequestDetails:
    """A request as it is sent; `variant` distinguishes requests to the same address."""

    method: str
    headers: tuple[_Field, ...]
    cookies: tuple[_Field, ...]
    body: bytes | None
    variant: str

    @property
    def is_repeatable(self) -> bool:
        """Whether a request that may have arrived can be sent again."""
        return self.method not in ("POST", "PATCH")

    def list_headers(self, address: str) -> list[tuple[str, str]]:
        """Return the headers for a request to `address`, those with credentials only for the hosts that get them."""
        return [(each.name, str(each.value)) for each in self.headers if _reaches(each, address)]

    def format_cookies(self, address: str) -> str:
        return "; ".join(f"{each.name}={each.value}" for each in self.cookies if _reaches(each, address))

    def list_cookie_names(self, address: str) -> list[str]:
        return [each.name for each in self.cookies if _reaches(each, address)]

    def without_cookies(self, names: Collection[str]) -> RequestDetails:
        """Return the request without cookies of these names, which the server has set meanwhile."""
        left = tuple(each for each in self.cookies if each.name not in names)
        return self if len(left) == len(self.cookies) else replace(self, cookies=left)

    def follow(self, status: int) -> RequestDetails:
        """Return the request after a redirect: a GET after 303, and for a POST after 301 and 302 (RFC 9110, 15.4)."""
        if status in (307, 308) or self.method == "GET" or (status in (301, 302) and self.method != "POST"):
            return self
        headers = tuple(each for each in self.headers if each.name.lower() != "content-type")
        return replace(self, method="GET", headers=headers, body=None)


def build_template(
    own: RequestArguments | None,
    defaults: RequestArguments,
    has_column: Callable[[str], bool],
    origins: Iterable[str],
    *,
    follows_pages: bool = False,
    secrets: Iterable[str] = (),
) -> RequestTemplate | None:
    """Return the template for a stage's requests; None for plain GETs.

    Defaults that refer to a column which the rows do not have are left out. Credentials go to the hosts of `origins`,
    the literal addresses of the pipeline, so that no page can link or redirect them to another host. Without literal
    addresses they go to the host of the row's address, unless that comes from a page (`follows_pages`). Whatever
    contains one of the `secrets` is a credential.
    """
    own = own or RequestArguments()
    scope = frozenset(origins)
    known = tuple(secrets)
    whole = own if own.own_method else defaults
    has_body = (whole.own_method or Method.GET) is not Method.GET
    form, multipart, content = whole.body_values if has_body else (None, None, None)

    def merge(named: Mapping[str, str], default: Mapping[str, str], *, all_secret: bool) -> tuple[_Field, ...]:
        fields: dict[str, _Field] = {}
        for name, value in (*default.items(), *named.items()):
            parsed = _parse_value(value)
            if not isinstance(parsed, _Column) or has_column(parsed.column):
                is_secret = all_secret or _CREDENTIAL.search(name) or any(each in value for each in known)
                if scope or not (is_secret and follows_pages):
                    fields[name.lower()] = _Field(name, value, scope if is_secret else None)
        return tuple(fields.values())

    texts = [str(each) for each in _iter_scalars([form, multipart, content])]
    is_secret_body = any(secret in text for text in texts for secret in known)
    template = RequestTemplate(
        whole.own_method or Method.GET,
        merge(own.headers, defaults.headers, all_secret=False),
        merge(own.cookies, defaults.cookies, all_secret=True),
        form,
        content,
        multipart,
        (scope or (frozenset((_NOWHERE,)) if follows_pages else scope)) if is_secret_body else None,
    )
    is_plain = template.method is Method.GET and not (template.headers or template.cookies)
    return None if is_plain else template


def _set_member(content: dict[str, object], name: str, value: str | int) -> None:
    """Set a member of a JSON body: `variables.after` or `$.variables.after` is one of the object `variables`."""
    *parents, last = [name] if name in content else name.removeprefix("$.").split(".")
    for parent in parents:
        inner = content.get(parent)
        content[parent] = content = cast("dict[str, object]", inner) if isinstance(inner, dict) else {}
    content[last] = value


def _encode_multipart(fields: Mapping[str, object]) -> bytes:
    """Return fields as multipart/form-data, as browsers encode them (HTML standard); its first line is the boundary."""
    parts = list[bytes]()
    for name, value in fields.items():
        for each in cast("list[object]", value) if isinstance(value, list) else [value]:
            file = cast("dict[str, object]", each) if isinstance(each, dict) else {"content": each}
            if (content := file.get("content")) is None:
                continue
            head = f'Content-Disposition: form-data; name="{_escape_name(name)}"'
            if isinstance(each, dict):
                head += f'; filename="{_escape_name(str(file.get("filename") or "file"))}"'
                head += f"\r\nContent-Type: {check_header_value('type', str(file.get('type') or 'text/plain'))}"
            parts.append(f"{head}\r\n\r\n{_format_scalar(content)}\r\n".encode())
    boundary = b"--spindle-" + sha256(b"".join(parts)).hexdigest()[:32].encode()
    return b"".join(boundary + _LINE_END + part for part in parts) + boundary + b"--\r\n"


def _escape_name(text: str) -> str:
    return text.replace("\r", "%0D").replace("\n", "%0A").replace('"', "%22")


def _resolve(value: object, lookup: Lookup) -> object:
    if isinstance(value, dict):
        return {name: _resolve(each, lookup) for name, each in cast("dict[str, object]", value).items()}
    if isinstance(value, list):
        return [_resolve(each, lookup) for each in cast("list[object]", value)]
    parsed = _parse_value(value)
    if not isinstance(parsed, _Column):
        return value
    found = lookup(parsed.column)
    return f"{parsed.prefix}{_format_scalar(found)}" if parsed.prefix and found is not None else found


def _to_json(value: object) -> object:
    """Return a value with decimals as numbers, and numbers that JSON lacks as null."""
    if isinstance(value, dict):
        return {name: _to_json(each) for name, each in cast("dict[str, object]", value).items()}
    if isinstance(value, list | tuple):
        return [_to_json(each) for each in cast("list[object]", value)]
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return None if isinstance(value, float) and not isfinite(value) else value


def _resolve_fields(fields: Iterable[_Field], url: str, lookup: Lookup, forbidden: str = "") -> Iterator[_Field]:
    for each in fields:
        found = _resolve(each.value, lookup)
        if found is not None:
            text = check_header_value(each.name, _format_scalar(found), forbidden)
            is_own = each.origins is not None and not each.origins
            yield _Field(each.name, text, frozenset({url}) if is_own else each.origins)


def _find_charset(headers: Iterable[_Field]) -> str:
    """Return Python's codec for a form: that of its Content-Type, else UTF-8."""
    named = next((str(each.value) for each in headers if each.name.lower() == "content-type"), "")
    charset = parse_content_type(named.encode())[1]
    found = lookup_encoding(charset) if charset else None
    return found.codec_info.name if found and not found.name.startswith("utf-16") else "utf-8"


def _reaches(field: _Field, address: str) -> bool:
    return field.origins is None or any(is_same_site(address, each) for each in field.origins)


def is_same_site(address: str, known: str) -> bool:
    """Whether `address` is at the host of `known` or below it, at the same or the default port, and no less secure."""
    found, other = urlsplit(address), urlsplit(known)
    host, parent = found.hostname or "", (other.hostname or "").removeprefix("www.")
    if host != parent and not host.endswith(f".{parent}"):
        return False
    if other.scheme == "https" and found.scheme != "https":
        return False
    defaults = [(each.port or _DEFAULT_PORTS[each.scheme]) == _DEFAULT_PORTS[each.scheme] for each in (found, other)]
    return all(defaults) or (found.port, found.scheme) == (other.port, other.scheme)
