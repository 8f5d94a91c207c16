"""HTTP as uvicorn reads it; what cannot be read as such is answered in the one error shape too."""

from __future__ import annotations

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from api.kit.errors import SENTENCES, error_response


class HttpProtocol(HttpToolsProtocol):
    """Of one connection, which ends with such an answer."""

    def send_400_response(self, msg: str) -> None:
        """Also to an address beyond 64 KiB; `msg`, which is plain text, stays unsaid."""
        answer = error_response(400, SENTENCES[400])
        lines = [b"%s: %s\r\n" % header for header in answer.raw_headers]
        self.transport.write(
            b"".join((b"HTTP/1.1 400 Bad Request\r\n", *lines, b"connection: close\r\n\r\n", answer.body))
        )
        self.transport.close()
