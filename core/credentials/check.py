"""Asking a provider whether a credential works, and telling what it answered without its secrets."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import quote

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as AwsKeys

from core.credentials.providers import check_region
from core.credentials.repository import SECRETS
from core.errors import BadInput, Detail
from core.infra.http_client import Answer, send, web_address
from core.infra.settings import Settings

LONGEST_MESSAGE = 300
TELLTALE = 4  # characters of a secret that give it away
DEFAULT_REGION = "us-east-1"
QUERY = "q=spindle"
IDENTITY = b"Action=GetCallerIdentity&Version=2011-06-15"

Fields = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Question:
    """The cheapest request of a provider that a good key alone is let through."""

    url: str
    headers: Mapping[str, str]
    method: str = "GET"
    body: bytes | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the provider said: its status, None where there was none, and a sentence."""

    success: bool
    status: int | None
    message: str
    milliseconds: int | None = None


def check_credential(settings: Settings, provider: str, fields: Fields) -> Verdict:
    """Asks the provider, at the credential's own endpoint if it has one. Raises BadInput where a field is missing."""
    ask = QUESTIONS.get(provider)
    if ask is None:
        return Verdict(True, None, f"There is nothing that {provider} could be asked; the credential was not tried.")
    _check_fields(fields)
    question = ask(fields)
    answer = send(settings, question.method, question.url, question.headers, question.body)
    return Verdict(answer.ok, answer.status, _told(provider, answer, fields), answer.milliseconds)


def _told(provider: str, answer: Answer, fields: Fields) -> str:
    if answer.status is None:
        return f"{provider} could not be asked. {answer.error}"
    if answer.ok:
        return f"{provider} accepted the credential."
    reason = _masked(_reason(answer.body), fields)
    return f"{provider} answered {answer.status}" + (f": {reason}" if reason else ".")


def _reason(body: bytes) -> str:
    """The message in an error body of JSON or XML; nothing where none is found."""
    text = body.decode("utf-8", "replace")
    try:
        found = _message(json.loads(text))
    except (ValueError, RecursionError):  # whoever answers may nest it as deep as they like
        match = re.search(r"<(?:Message|title)>([^<]*)</", text)
        found = match.group(1) if match else ""
    return " ".join(found.split())[:LONGEST_MESSAGE]


def _message(value: Any) -> str:
    """The text under the names that providers use, however deep they put it."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        known = cast(dict[str, Any], value)
        return next(
            (text for name in ("message", "error", "errors", "detail") if (text := _message(known.get(name)))), ""
        )
    return _message(cast(list[Any], value)[0]) if isinstance(value, list) and value else ""


def _masked(text: str, fields: Fields) -> str:
    """Without the secrets, and without words that begin like one: some providers repeat half a key."""
    for secret in (fields[field] for field in SECRETS if fields.get(field)):
        text = text.replace(secret, "****")
        text = re.sub(rf"{re.escape(secret[:TELLTALE])}\S*", "****", text)
    return text


def _check_fields(fields: Fields) -> None:
    """What goes into a header must not begin another one."""
    for name, value in fields.items():
        if name != "endpoint" and not (value.isascii() and value.isprintable()):
            sentence = f"'{_camel(name)}' contains a character that no request can carry."
            raise BadInput(sentence, [Detail(_camel(name), sentence)])
    if "endpoint" in fields and web_address(fields["endpoint"]) is None:
        sentence = "'endpoint' is not an http or https address."
        raise BadInput(sentence, [Detail("endpoint", sentence)])


def _needed(fields: Fields, *names: str) -> str:
    """The first of the fields that is set."""
    value = next((fields[name] for name in names if fields.get(name)), None)
    if value is None:
        sentence = f"This credential has no '{_camel(names[0])}' to ask with."
        raise BadInput(sentence, [Detail(_camel(names[0]), "is missing")])
    return value


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def _at(fields: Fields, default: str, path: str) -> str:
    return (web_address(fields["endpoint"]) or "").rstrip("/") + path if "endpoint" in fields else default + path


def _bearer(default: str, path: str) -> Callable[[Fields], Question]:
    def ask(fields: Fields) -> Question:
        return Question(_at(fields, default, path), {"Authorization": f"Bearer {_needed(fields, 'api_key')}"})

    return ask


def _anthropic(fields: Fields) -> Question:
    headers = {"x-api-key": _needed(fields, "api_key"), "anthropic-version": "2023-06-01"}
    return Question(_at(fields, "https://api.anthropic.com", "/v1/models?limit=1"), headers)


def _google_search(fields: Fields) -> Question:
    """The key as a header: in the address it would stand in logs."""
    path = f"/customsearch/v1?cx={quote(_needed(fields, 'engine_id'), safe='')}&num=1&{QUERY}"
    return Question(_at(fields, "https://www.googleapis.com", path), {"X-Goog-Api-Key": _needed(fields, "api_key")})


def _bing_search(fields: Fields) -> Question:
    url = _at(fields, "https://api.bing.microsoft.com", f"/v7.0/search?count=1&{QUERY}")
    return Question(url, {"Ocp-Apim-Subscription-Key": _needed(fields, "api_key")})


def _steel(fields: Fields) -> Question:
    url = _at(fields, "https://api.steel.dev", "/v1/sessions?limit=1")
    return Question(url, {"Steel-Api-Key": _needed(fields, "api_key")})


def _aws(fields: Fields) -> Question:
    """STS GetCallerIdentity, which every key may call, signed by AWS's own library (Signature Version 4)."""
    region = fields.get("region") or DEFAULT_REGION
    check_region("AWS", region)
    url = _at(fields, f"https://sts.{region}.amazonaws.com", "/")
    keys = AwsKeys(_needed(fields, "access_key_id", "api_key"), _needed(fields, "secret_access_key", "api_secret"))
    form = {"Content-Type": "application/x-www-form-urlencoded; charset=utf-8"}
    request = AWSRequest(method="POST", url=url, data=IDENTITY, headers=form)
    SigV4Auth(keys, "sts", region).add_auth(request)
    return Question(url, dict(request.headers.items()), "POST", IDENTITY)


QUESTIONS: Mapping[str, Callable[[Fields], Question]] = {
    "OPENAI": _bearer("https://api.openai.com/v1", "/models"),
    "TOGETHERAI": _bearer("https://api.together.xyz/v1", "/models"),
    "HUGGING_FACE": _bearer("https://huggingface.co", "/api/whoami-v2"),
    "ANTHROPIC": _anthropic,
    "GOOGLE_SEARCH": _google_search,
    "BING_SEARCH": _bing_search,
    "STEEL_DEV": _steel,
    "AWS": _aws,
}
