"""POST requests to a model's server behind the address guard; the key reaches no message."""

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import certifi
import pycurl

from pipelines.fetch import Guard, GuardRefused
from pipelines.fetch.page import parse_retry_after
from pipelines.models.failures import ModelFailed
from pipelines.models.model_choice import Model

_CONNECT_SECONDS = 10
_TOTAL_SECONDS = 180
_MAX_ANSWER = 4 * 2**20  # bytes


@dataclass(slots=True)
class _Answer:
    """The body and header lines of an answer while it arrives."""

    body: bytearray = field(default_factory=bytearray)
    retry_after: float | None = None
    refused: GuardRefused | None = None

    def receive(self, data: bytes) -> int:
        if len(self.body) + len(data) > _MAX_ANSWER:
            return 0  # libcurl aborts
        self.body += data
        return len(data)

    def read_header(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"retry-after":
            self.retry_after = parse_retry_after(value.decode("latin-1"))


def post_json(model: Model, headers: Mapping[str, str], body: object) -> dict[str, Any]:
    """Send a request and return the object of the answer; raise ModelFailed for every other outcome."""
    answer, guard = _Answer(), Guard(model.networks, model.own_endpoints)
    curl = pycurl.Curl()

    def open_socket(_purpose: int, address: Any) -> Any:
        try:
            guard.check(address.addr[0], address.addr[1])
        except GuardRefused as refused:
            answer.refused = refused
            return pycurl.SOCKET_BAD
        return _Socket(address.family, address.socktype, address.protocol)

    lines = [
        f"{name}: {value}" for name, value in {"Expect": "", "Content-Type": "application/json", **headers}.items()
    ]
    options: tuple[tuple[int, Any], ...] = (
        (pycurl.URL, model.url),
        (pycurl.POSTFIELDS, json.dumps(body, ensure_ascii=False).encode()),
        (pycurl.HTTPHEADER, lines),
        (pycurl.NOSIGNAL, 1),
        (pycurl.PROXY, ""),  # the guard must see every address
        (pycurl.PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS),
        (pycurl.FOLLOWLOCATION, 0),  # a redirect would take the key elsewhere
        (pycurl.USERAGENT, "Spindle"),
        (pycurl.CONNECTTIMEOUT, _CONNECT_SECONDS),
        (pycurl.TIMEOUT, _TOTAL_SECONDS),
        (pycurl.CAINFO, ssl.get_default_verify_paths().cafile or certifi.where()),
        (pycurl.WRITEFUNCTION, answer.receive),
        (pycurl.HEADERFUNCTION, answer.read_header),
        (pycurl.OPENSOCKETFUNCTION, open_socket),
    )
    try:
        for option, value in options:
            curl.setopt(option, value)
        curl.perform()
        status = int(curl.getinfo(pycurl.RESPONSE_CODE))
    except pycurl.error as error:
        raise _describe_failure(model, answer, int(error.args[0])) from None
    finally:
        curl.close()
    return _read_answer(model, status, answer)


class _Socket(socket.socket):
    """Closes itself: libcurl works on a duplicate of the file descriptor."""

    def __del__(self) -> None:
        self.close()


def _describe_failure(model: Model, answer: _Answer, code: int) -> ModelFailed:
    server = f"the model's server at {_hide_path(model.url)}"
    if answer.refused:
        return ModelFailed(f"{server} may not be called: {answer.refused}", "model-unreachable")
    if len(answer.body) and code == pycurl.E_WRITE_ERROR:
        return ModelFailed(f"{server} sent an answer of more than {_MAX_ANSWER >> 20} MiB", "model-answer-invalid")
    if code == pycurl.E_OPERATION_TIMEDOUT:
        return ModelFailed(f"{server} did not answer in time", "model-unreachable", retryable=True)
    return ModelFailed(f"{server} cannot be reached (libcurl error {code})", "model-unreachable", retryable=True)


def _read_answer(model: Model, status: int, answer: _Answer) -> dict[str, Any]:
    server = f"the model's server at {_hide_path(model.url)}"
    if status == 429 or status >= 500:
        sentence = f"{server} answered {status}"
        raise ModelFailed(sentence, "model-busy", retryable=True, wait=answer.retry_after)
    if status in (401, 403):
        raise ModelFailed(f"{server} answered {status}: its credential's key is not valid", "model-rejected")
    if status != 200:  # an answer's text may repeat the key or the page
        sentence = f"{server} answered {status}; the model's name '{model.name}' or its endpoint may be wrong"
        raise ModelFailed(sentence, "model-rejected")
    try:
        value: object = json.loads(bytes(answer.body))
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise ModelFailed(f"{server} sent no JSON object", "model-answer-invalid", retryable=True)
    return cast("dict[str, Any]", value)


def _hide_path(url: str) -> str:
    """Return scheme and host of a URL, without the parts that may identify a user."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.partition('/')[0].rpartition('@')[2]}"
