"""Mail by SMTP, through the guard of the addresses that the service may call."""

from __future__ import annotations

import io
import re
import time
from collections.abc import Sequence
from email.message import EmailMessage
from email.utils import formatdate, make_msgid
from urllib.parse import parse_qs, urlsplit

import pycurl

from core.errors import BadInput
from core.infra.http_client import CONNECT_SECONDS, TOTAL_SECONDS
from core.infra.settings import Settings
from pipelines.http_client.client import UNKNOWN_HOST, HttpResponse
from pipelines.http_client.failures import describe_curl_error
from pipelines.http_client.guard import Guard
from pipelines.http_client.handles import GuardedSockets, TimeLimits, make_handle

_NO_SERVER = "'endpoint' is no address such as smtp://mail.example.com:587?from=etl@example.com."
PORTS = {"smtp": 587, "smtps": 465}
_PRINTED = r"[!#-&(-+\--:=?A-~]+"  # without the quotes, commas and brackets of lists of addresses
ADDRESS = f"{_PRINTED}@{_PRINTED}"


def send_mail(
    settings: Settings,
    server: str,
    login: tuple[str, str] | None,
    recipients: Sequence[str],
    subject: str,
    text: str,
) -> HttpResponse:
    """Send a mail and return the server's answer; failures are responses without a status.

    `server` is `smtp://host:port?from=ADDRESS`, or `smtps://` for TLS from the start. With a login the connection is
    encrypted or not used at all; without one it is where the server offers that. Raise BadInput for another address.
    """
    scheme, where, sender = _parse_server(server, login[0] if login else "")
    sockets = GuardedSockets(Guard(settings.fetch.allow_networks, settings.own_endpoints))
    limits = TimeLimits(CONNECT_SECONDS, TOTAL_SECONDS)
    curl = make_handle(sockets, limits)
    content = _build_mail(sender, recipients, subject, text)
    for option, value in (
        (pycurl.PROTOCOLS, pycurl.PROTO_SMTP | pycurl.PROTO_SMTPS),
        (pycurl.URL, f"{scheme}://{where}"),
        (pycurl.USE_SSL, pycurl.USESSL_ALL if login else pycurl.USESSL_TRY),
        (pycurl.MAIL_FROM, sender),
        (pycurl.MAIL_RCPT, list(recipients)),
        (pycurl.UPLOAD, 1),
        (pycurl.READDATA, io.BytesIO(content)),
        (pycurl.INFILESIZE, len(content)),
    ):
        curl.setopt(option, value)
    if login:
        curl.setopt(pycurl.USERNAME, login[0].encode())
        curl.setopt(pycurl.PASSWORD, login[1].encode())
    return _perform(curl, sockets, where, limits)


def _parse_server(server: str, user: str) -> tuple[str, str, str]:
    """Return scheme, host with port, and sender; raise BadInput for another address."""
    try:
        address = urlsplit(server)
        port = address.port or PORTS[address.scheme]
    except (ValueError, KeyError):  # of the port, or the scheme
        raise BadInput(_NO_SERVER) from None
    sender = next(iter(parse_qs(address.query).get("from", ())), None)
    sender = sender or (user if "@" in user else f"spindle@{address.hostname}")
    if not address.hostname or "@" in address.netloc or not server.isascii() or not re.fullmatch(ADDRESS, sender):
        raise BadInput(_NO_SERVER)
    return address.scheme, f"{address.hostname}:{port}", sender


def _perform(curl: pycurl.Curl, sockets: GuardedSockets, where: str, limits: TimeLimits) -> HttpResponse:
    started, reason = time.monotonic(), None
    try:
        curl.perform()
    except pycurl.error as problem:
        code, detail = int(problem.args[0]), curl.errstr()
        if sockets.refused is not None or code == pycurl.E_COULDNT_RESOLVE_HOST:
            reason = UNKNOWN_HOST
        elif code == pycurl.E_LOGIN_DENIED:
            reason = f"{where} refuses the user name and password"
        elif code == pycurl.E_USE_SSL_FAILED:
            reason = f"{where} offers no encryption, without which no password is sent"
        else:
            reason = describe_curl_error(code, detail, where, limits)
    status: int = curl.getinfo(pycurl.RESPONSE_CODE)
    curl.close()
    milliseconds = round((time.monotonic() - started) * 1000)
    # a code of SMTP that is no success says more than libcurl's own error
    answered = reason is None or status >= 400
    return HttpResponse(status if answered else None, b"", None if answered else reason, milliseconds)


def _build_mail(sender: str, recipients: Sequence[str], subject: str, text: str) -> bytes:
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = sender, ", ".join(recipients), subject
    mail["Date"], mail["Message-ID"] = formatdate(), make_msgid(domain=sender.rpartition("@")[2])
    mail["Auto-Submitted"] = "auto-generated"  # so that nobody's absence is answered
    mail.set_content(text)
    return mail.as_bytes().replace(b"\n", b"\r\n")
