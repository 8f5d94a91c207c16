"""Check of a credential: a cheap request to its provider, and the provider's answer without secrets."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, cast
from urllib.parse import quote

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as AwsKeys
from pydantic import ConfigDict
from pydantic.alias_generators import to_camel

from core.definitions.credentials.models import SECRETS
from core.definitions.credentials.providers import check_region, get_variables
from core.errors import BadInput
from core.infra.http_client import send_request
from core.infra.records import RECORD
from core.infra.settings import Settings
from pipelines.fetch import canonical_url
from pipelines.http_client.client import HttpResponse

MAX_MESSAGE_LENGTH = 300
SECRET_PREFIX_LENGTH = 4  # a word that begins like a secret is masked too: some providers repeat half a key
DEFAULT_REGION = "us-east-1"
QUERY = "q=spindle"
GET_CALLER_IDENTITY = b"Action=GetCallerIdentity&Version=2011-06-15"

Fields = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class CheckRequest:
    """The cheapest request that a provider answers with success for a valid key only."""

    url: str
    headers: Mapping[str, str]
    method: str = "GET"
    body: bytes | None = None


@dataclass(frozen=True, slots=True)
class CredentialVerdict:
    """Answer of a provider; `status` is null for one that has no check, or that did not answer."""

    __pydantic_config__: ClassVar[ConfigDict] = RECORD
    success: bool
    """Whether the provider accepted the credential."""
    provider: str
    """The provider under its usual name."""
    status: int | None
    """HTTP status of the provider's answer; null when it was not asked or did not answer."""
    message: str
    """The outcome as a sentence."""
    milliseconds: int | None = None
    """Time that the provider took; null when it was not asked."""


def check_credential(settings: Settings, provider: str, fields: Fields) -> CredentialVerdict:
    """Send the provider's check request, to the credential's own endpoint if it has one.

    Raise BadInput when a field is missing or cannot be sent.
    """
    build_request = REQUESTS.get(provider)
    if build_request is None:
        if get_variables(provider):
            return CredentialVerdict(
                False, provider, None, f"Credentials of {provider} cannot be checked. No request was sent."
            )
        known = ", ".join(sorted(REQUESTS))
        sentence = f"{provider} is no provider that the service knows, so its credentials cannot be checked"
        return CredentialVerdict(False, provider, None, f"{sentence}. It can check {known}.")
    _validate_fields(fields)
    request = build_request(fields)
    response = send_request(settings, request.method, request.url, request.headers, request.body)
    outcome = _describe(provider, response, fields)
    return CredentialVerdict(response.ok, provider, response.status, outcome, response.milliseconds)


def _describe(provider: str, response: HttpResponse, fields: Fields) -> str:
    if response.status is None:
        return f"{provider} did not answer. {response.error}"
    if response.ok:
        return f"{provider} accepted the credential."
    reason = mask_secrets(extract_reason(response.body), fields)
    return f"{provider} answered {response.status}" + (f": {reason}" if reason else ".")


def extract_reason(body: bytes) -> str:
    """Return the message of an error body in JSON or XML, or an empty text."""
    text = body.decode("utf-8", "replace")
    try:
        found = _find_message(json.loads(text))
    except (ValueError, RecursionError):  # not JSON, or nested without end
        match = re.search(r"<(?:Message|title)>([^<]*)</", text)
        found = match.group(1) if match else ""
    return " ".join(found.split())[:MAX_MESSAGE_LENGTH]


def _find_message(value: Any) -> str:
    """Search the keys that providers use for messages, at any depth."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        known = cast(dict[str, Any], value)
        names = ("message", "error", "errors", "detail")
        return next((text for name in names if (text := _find_message(known.get(name)))), "")
    return _find_message(cast(list[Any], value)[0]) if isinstance(value, list) and value else ""


def mask_secrets(text: str, fields: Fields) -> str:
    """Replace the credential's secrets, and words that begin like one."""
    for secret in (fields[field] for field in SECRETS if fields.get(field)):
        text = text.replace(secret, "****")
        text = re.sub(rf"{re.escape(secret[:SECRET_PREFIX_LENGTH])}\S*", "****", text)
    return text


def _validate_fields(fields: Fields) -> None:
    """Refuse values that would break out of an HTTP header, and endpoints that are no web addresses."""
    for name, value in fields.items():
        if name != "endpoint" and not (value.isascii() and value.isprintable()):
            path = to_camel(name)
            raise BadInput(f"'{path}' contains a character that an HTTP header cannot have.", path=path)
    if "endpoint" in fields and canonical_url(fields["endpoint"]) is None:
        raise BadInput("'endpoint' is not an http or https address.", path="endpoint")


def _require(fields: Fields, *names: str) -> str:
    """Return the first of the fields that is set."""
    value = next((fields[name] for name in names if fields.get(name)), None)
    if value is None:
        path = to_camel(names[0])
        raise BadInput(f"The check needs the credential's '{path}'.", code="missing-field", path=path)
    return value


def _build_url(fields: Fields, default: str, path: str) -> str:
    base = (canonical_url(fields["endpoint"]) or "").rstrip("/") if "endpoint" in fields else default
    return base + path


def _build_bearer_request(default: str, path: str) -> Callable[[Fields], CheckRequest]:
    def build(fields: Fields) -> CheckRequest:
        headers = {"Authorization": f"Bearer {_require(fields, 'api_key')}"}
        return CheckRequest(_build_url(fields, default, path), headers)

    return build


def _build_anthropic_request(fields: Fields) -> CheckRequest:
    headers = {"x-api-key": _require(fields, "api_key"), "anthropic-version": "2023-06-01"}
    return CheckRequest(_build_url(fields, "https://api.anthropic.com", "/v1/models?limit=1"), headers)


def _build_google_request(fields: Fields) -> CheckRequest:
    """Send the key as a header, because URLs appear in logs."""
    path = f"/customsearch/v1?cx={quote(_require(fields, 'engine_id'), safe='')}&num=1&{QUERY}"
    url = _build_url(fields, "https://www.googleapis.com", path)
    return CheckRequest(url, {"X-Goog-Api-Key": _require(fields, "api_key")})


def _build_bing_request(fields: Fields) -> CheckRequest:
    url = _build_url(fields, "https://api.bing.microsoft.com", f"/v7.0/search?count=1&{QUERY}")
    return CheckRequest(url, {"Ocp-Apim-Subscription-Key": _require(fields, "api_key")})


def _build_searxng_request(fields: Fields) -> CheckRequest:
    key = fields.get("api_key")
    url = f"{(canonical_url(_require(fields, 'endpoint')) or '').rstrip('/')}/search?format=json&{QUERY}"
    return CheckRequest(url, {"Authorization": f"Bearer {key}"} if key else {})


def _build_steel_request(fields: Fields) -> CheckRequest:
    url = _build_url(fields, "https://api.steel.dev", "/v1/sessions?limit=1")
    return CheckRequest(url, {"Steel-Api-Key": _require(fields, "api_key")})


def _build_aws_request(fields: Fields) -> CheckRequest:
    """Call STS GetCallerIdentity, which every key may call, signed by botocore (Signature Version 4)."""
    region = fields.get("region") or DEFAULT_REGION
    check_region("AWS", region)
    url = _build_url(fields, f"https://sts.{region}.amazonaws.com", "/")
    keys = AwsKeys(_require(fields, "access_key_id", "api_key"), _require(fields, "secret_access_key", "api_secret"))
    form = {"Content-Type": "application/x-www-form-urlencoded; charset=utf-8"}
    request = AWSRequest(method="POST", url=url, data=GET_CALLER_IDENTITY, headers=form)
    SigV4Auth(keys, "sts", region).add_auth(request)
    return CheckRequest(url, dict(request.headers.items()), "POST", GET_CALLER_IDENTITY)


REQUESTS: Mapping[str, Callable[[Fields], CheckRequest]] = {
    "OPENAI": _build_bearer_request("https://api.openai.com/v1", "/models"),
    "TOGETHERAI": _build_bearer_request("https://api.together.xyz/v1", "/models"),
    "HUGGING_FACE": _build_bearer_request("https://huggingface.co", "/api/whoami-v2"),
    "ANTHROPIC": _build_anthropic_request,
    "GOOGLE_SEARCH": _build_google_request,
    "BING_SEARCH": _build_bing_request,
    "SEARXNG": _build_searxng_request,
    "STEEL_DEV": _build_steel_request,
    "AWS": _build_aws_request,
}
