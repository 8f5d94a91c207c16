"""A mail server on this machine: aiosmtpd, with TLS and a login where a test asks for them."""

from __future__ import annotations

import ssl
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP as Protocol
from aiosmtpd.smtp import AuthResult, Envelope, LoginPassword

from tests.support.service import free_port


@dataclass
class MailServer:
    """The mails so far, and whether each came with TLS; recipients at `refused.test` are refused."""

    port: int
    mails: list[tuple[EmailMessage, list[str]]] = field(default_factory=list)
    encrypted: list[bool] = field(default_factory=list)

    async def handle_RCPT(self, _server: Any, _session: Any, envelope: Envelope, address: str, _options: Any) -> str:
        if address.endswith("@refused.test"):
            return "550 5.1.1 There is nobody of this name"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, _server: Protocol, session: Any, envelope: Envelope) -> str:
        assert isinstance(envelope.content, bytes)
        mail = message_from_bytes(envelope.content, policy=policy.default)
        self.mails.append((mail, envelope.rcpt_tos))
        self.encrypted.append(session.ssl is not None)
        return "250 OK"


@contextmanager
def serve_mail(
    certificate: tuple[Path, Path] | None = None, login: tuple[str, str] | None = None
) -> Generator[MailServer]:
    """Serve SMTP on loopback, with STARTTLS by a certificate and its key, and for those with the login alone."""
    server, options = MailServer(free_port()), dict[str, Any]()
    if certificate is not None:
        options["tls_context"] = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        options["tls_context"].load_cert_chain(*certificate)
    if login is not None:

        def check(_server: Any, _session: Any, _envelope: Any, _mechanism: str, data: LoginPassword) -> AuthResult:
            sent = (data.login.decode(), data.password.decode())
            return AuthResult(success=sent == login, handled=sent == login)

        options |= {"authenticator": check, "auth_required": True}
    controller = Controller(server, "127.0.0.1", server.port, **options)
    controller.start()
    yield server
    controller.stop()
