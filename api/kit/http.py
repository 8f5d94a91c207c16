"""uvicorn's HTTP protocol, with the service's error body for requests that are not valid HTTP."""

from __future__ import annotations

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from api.kit.errors import http_error_response


class HttpProtocol(HttpToolsProtocol):
    """The protocol of one connection."""

    def send_400_response(self, msg: str) -> None:
        """Answer in the one error shape and close; `msg`, uvicorn's plain text, is not sent."""
        answer = http_error_response(400)
        lines = [b"%s: %s\r\n" % header for header in answer.raw_headers]
        self.transport.write(
            b"".join((b"HTTP/1.1 400 Bad Request\r\n", *lines, b"connection: close\r\n\r\n", answer.body))
        )
        self.transport.close()
