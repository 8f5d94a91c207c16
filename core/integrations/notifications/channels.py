"""How a message is sent to a target of any kind. A target is a cloud credential: its provider is the kind."""

from __future__ import annotations

import json
import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from core.errors import BadInput
from core.infra.http_client import send_request
from core.infra.mail import send_mail
from core.infra.settings import Settings
from pipelines.fetch import canonical_url
from pipelines.http_client.client import HttpResponse

MAX_DISCORD, MAX_TEXT = 1900, 3000
MAX_SUBJECT = 200


@dataclass(frozen=True, slots=True)
class Line:
    """One notice: its sentence, and the page that shows more."""

    sentence: str
    link: str


@dataclass(frozen=True, slots=True)
class Text:
    """The content of a message: notices, the newest last, and how many of them have no line."""

    lines: Sequence[Line]
    left_out: int = 0

    @property
    def title(self) -> str:
        others = len(self.lines) - 1 + self.left_out
        return shorten(self.lines[0].sentence, MAX_SUBJECT) + (f" (and {others} more)" if others else "")

    @property
    def link(self) -> str:
        return self.lines[0].link

    @property
    def plain(self) -> str:
        """The notices with their links, a line each."""
        lines = [f"{each.sentence} {each.link}" for each in self.lines]
        return "\n".join([*lines, *([f"And {self.left_out} more."] if self.left_out else [])])


@dataclass(frozen=True, slots=True)
class Target:
    """A credential in clear, with the additions of the rule."""

    provider: str
    fields: Mapping[str, str] = field(repr=False)
    recipients: Sequence[str] = ()
    template: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def get(self, name: str, meaning: str) -> str:
        """Return a field of the credential; raise BadInput where it has none."""
        if value := self.fields.get(name):
            return value
        label = {"api_key": "apiKey"}.get(name, name)
        raise BadInput(f"The credential of the target has no '{label}': {meaning}.", code="missing-field")


def send_text(settings: Settings, target: Target, text: Text) -> HttpResponse:
    """Send a message once. Failures are responses without a status; raise BadInput for an incomplete credential."""
    return CHANNELS[target.provider](settings, target, text)


def shorten(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def _disarm_links(text: str) -> str:
    """Let no text be a Markdown link with other words than its address: a reason may quote a page."""
    return text.replace("](", "]\\(")


def _send_slack(settings: Settings, target: Target, text: Text) -> HttpResponse:
    """Escape the characters that Slack reads as links and mentions: a reason may quote a page."""
    escaped = text.plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _post(settings, target, {"text": shorten(escaped, MAX_TEXT), "unfurl_links": False})


def _send_discord(settings: Settings, target: Target, text: Text) -> HttpResponse:
    content = shorten(_disarm_links(text.plain), MAX_DISCORD)
    return _post(settings, target, {"content": content, "allowed_mentions": {"parse": []}})


def _send_teams(settings: Settings, target: Target, text: Text) -> HttpResponse:
    """Post an adaptive card, the form that the webhooks of Teams' workflows take."""
    lines = (shorten(_disarm_links(line), MAX_TEXT) for line in text.plain.split("\n"))
    blocks = [{"type": "TextBlock", "wrap": True, "text": line} for line in lines]
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": blocks,
        "actions": [{"type": "Action.OpenUrl", "title": "Open", "url": text.link}],
    }
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "content": card}
    return _post(settings, target, {"type": "message", "attachments": [attachment]})


def _send_ntfy(settings: Settings, target: Target, text: Text) -> HttpResponse:
    """Publish as JSON, whose texts may have any characters: headers may not."""
    address = target.get("endpoint", "the address of the topic, such as https://ntfy.sh/topic").rstrip("/")
    server, _, topic = address.rpartition("/")
    body = {"topic": topic, "title": text.title, "message": shorten(text.plain, MAX_TEXT), "click": text.link}
    return _post_json(settings, f"{server}/", body, target.fields.get("api_key"))


def _send_webhook(settings: Settings, target: Target, text: Text) -> HttpResponse:
    values = {"title": text.title, "text": text.plain, "link": text.link}
    notices = [{"text": each.sentence, "link": each.link} for each in text.lines]
    body = _fill(target.template, values) if target.template else {**values, "notices": notices}
    address = target.get("endpoint", "the address that is posted to")
    return _post_json(settings, address, body, target.fields.get("api_key"))


def _send_mail(settings: Settings, target: Target, text: Text) -> HttpResponse:
    user, password = (target.fields.get(name) for name in ("access_key_id", "secret_access_key"))
    login = (user, password) if user and password else None
    server = target.get("endpoint", "the mail server, such as smtp://mail.example.com:587")
    return send_mail(settings, server, login, target.recipients, text.title, text.plain)


def _fill(template: Any, values: Mapping[str, str]) -> Any:
    """Return the template with `${title}`, `${text}` and `${link}` filled in, in texts at any depth."""
    if isinstance(template, str):
        return string.Template(template).safe_substitute(values)
    if isinstance(template, Mapping):
        return {name: _fill(value, values) for name, value in cast(Mapping[str, Any], template).items()}
    if isinstance(template, list):
        return [_fill(each, values) for each in cast(list[Any], template)]
    return template


def _post(settings: Settings, target: Target, body: Mapping[str, Any]) -> HttpResponse:
    """Post to the incoming webhook of a chat, whose address is the secret."""
    return _post_json(settings, target.get("api_key", "the address of the incoming webhook"), body, None)


def _post_json(settings: Settings, url: str, body: Any, token: str | None) -> HttpResponse:
    headers, address = {"Content-Type": "application/json"}, canonical_url(url)
    if address is None:
        raise BadInput("The address of the target is none of http or https. Correct its credential.")
    if token and not (token.isascii() and token.isprintable()):
        raise BadInput("The 'apiKey' of the target contains a character that an HTTP header cannot have.")
    if token:
        headers["Authorization"] = f"Bearer {token}"
    return send_request(settings, "POST", address, headers, json.dumps(body, ensure_ascii=False).encode())


CHANNELS: Mapping[str, Callable[[Settings, Target, Text], HttpResponse]] = {
    "SLACK": _send_slack,
    "TEAMS": _send_teams,
    "DISCORD": _send_discord,
    "NTFY": _send_ntfy,
    "SMTP": _send_mail,
    "WEBHOOK": _send_webhook,
}
FIELDS: Mapping[str, Sequence[str]] = {
    "SLACK": ("api_key",),
    "TEAMS": ("api_key",),
    "DISCORD": ("api_key",),
    "NTFY": ("endpoint", "api_key"),
    "SMTP": ("endpoint", "access_key_id", "secret_access_key"),
    "WEBHOOK": ("endpoint", "api_key"),
}
"""The fields of its credential that each channel reads."""
