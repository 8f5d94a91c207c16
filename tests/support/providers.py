"""The APIs of credential providers: one server that accepts one key for each of them."""

from __future__ import annotations

import json
import re
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from tests.support.servers import Handler, serve

GOOD = "good-key-0123456789"
IDENTITY = """<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><GetCallerIdentityResult>
<Arn>arn:aws:iam::123456789012:user/x</Arn></GetCallerIdentityResult></GetCallerIdentityResponse>"""
DENIED = """<ErrorResponse><Error><Type>Sender</Type><Code>SignatureDoesNotMatch</Code>
<Message>The request signature we calculated does not match.</Message></Error></ErrorResponse>"""


@dataclass
class Providers:
    """The server's URL and the paths of the requests so far."""

    url: str
    asked: list[str] = field(default_factory=list)


class ProviderHandler(Handler):
    providers: Providers

    def do_GET(self) -> None:
        self.providers.asked.append(self.path)
        path, query = urlsplit(self.path).path, parse_qs(urlsplit(self.path).query)
        key = self.headers.get
        if path in ("/openai/v1/models", "/together/v1/models"):
            self._judge(key("Authorization") == f"Bearer {GOOD}", self._refuse_openai_key(key("Authorization") or ""))
        elif path == "/huggingface/api/whoami-v2":
            self._judge(key("Authorization") == f"Bearer {GOOD}", {"error": "Invalid credentials in header"})
        elif path == "/anthropic/v1/models" and key("anthropic-version"):
            error = {"type": "error", "error": {"type": "authentication_error", "message": "invalid x-api-key"}}
            self._judge(key("x-api-key") == GOOD, error)
        elif path == "/google/customsearch/v1" and query["cx"] == ["engine"] and query["q"]:
            error = {"error": {"code": 400, "message": "API key not valid. Please pass a valid API key."}}
            self._judge(key("X-Goog-Api-Key") == GOOD, error, 400)
        elif path == "/bing/v7.0/search" and query["q"]:
            error = {"error": {"code": "401", "message": "Access denied due to invalid subscription key."}}
            self._judge(key("Ocp-Apim-Subscription-Key") == GOOD, error)
        elif path == "/steel/v1/sessions":
            self._judge(key("Steel-Api-Key") == GOOD, {"message": "Unauthorized"})
        elif path == "/deep/models":
            self.respond(401, b"[" * 100_000, "application/json")
        else:
            self._respond_json(404, {"error": "no such path"})

    def do_POST(self) -> None:
        """STS: compare the signature with one computed from the received request."""
        self.providers.asked.append(self.path)
        body = self.read_body()
        claimed = re.search(
            r"Credential=([^/]+)/\d+/([^/]+)/sts/.*SignedHeaders=([^,]+)", self.headers["Authorization"]
        )
        assert claimed
        signed = {name: self.headers[name] for name in claimed.group(3).split(";")}
        request = AWSRequest("POST", f"{self.providers.url}{self.path}", data=body, headers=signed)
        request.context["timestamp"] = self.headers["X-Amz-Date"]
        auth = SigV4Auth(Credentials(claimed.group(1), GOOD), "sts", claimed.group(2))
        text = auth.string_to_sign(request, auth.canonical_request(request))
        right = str(auth.signature(text, request)) in self.headers["Authorization"]
        good = right and b"Action=GetCallerIdentity" in body
        self.respond(200 if good else 403, IDENTITY if good else DENIED, "text/xml")

    def _refuse_openai_key(self, authorization: str) -> object:
        key = authorization.removeprefix("Bearer ")
        shown = f"{key[:8]}***{key[-4:]}"
        return {"error": {"message": f"Incorrect API key provided: {shown}.", "type": "invalid_request_error"}}

    def _judge(self, good: bool, error: object, status: int = 401) -> None:
        self._respond_json(200, {"data": []}) if good else self._respond_json(status, error)

    def _respond_json(self, status: int, body: object) -> None:
        self.respond(status, json.dumps(body), "application/json")


@contextmanager
def serve_providers() -> Generator[Providers]:
    handler = type("Handler", (ProviderHandler,), {})
    with serve(handler) as url:
        handler.providers = Providers(url)
        yield handler.providers
