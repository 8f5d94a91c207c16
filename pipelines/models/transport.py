"""POST requests to a model's server behind the address guard; the key reaches no message."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from pipelines.fetch.page import parse_retry_after
from pipelines.http_client.client import HttpResponse, send_request
from pipelines.http_client.guard import Guard
from pipelines.http_client.handles import TimeLimits
from pipelines.models.failures import ModelFailed
from pipelines.models.model_choice import Model

_LIMITS = TimeLimits(connect=10, total=180)
_MAX_ANSWER = 4 * 2**20  # bytes


def post_json(model: Model, headers: Mapping[str, str], body: object) -> dict[str, Any]:
    """Send a request and return the object of the answer; raise ModelFailed for every other outcome."""
    guard, sent = Guard(model.networks, model.own_endpoints), {"Content-Type": "application/json", **headers}
    content = json.dumps(body, ensure_ascii=False).encode()
    answer = send_request(guard, "POST", model.url, sent, content, _LIMITS, _MAX_ANSWER)
    server = f"the model's server at {_hide_path(model.url)}"
    if answer.failure == "refused":
        raise ModelFailed(f"{server} may not be called: {answer.reason}", "model-unreachable")
    if answer.is_cut:
        raise ModelFailed(f"{server} sent an answer of more than {_MAX_ANSWER >> 20} MiB", "model-answer-invalid")
    if answer.status is None:
        raise ModelFailed(f"{server} cannot be reached: {answer.reason}", "model-unreachable", retryable=True)
    return _read_answer(model, server, answer.status, answer)


def _read_answer(model: Model, server: str, status: int, answer: HttpResponse) -> dict[str, Any]:
    if status == 429 or status >= 500:
        wait = parse_retry_after(answer.headers.get("retry-after", ""))
        raise ModelFailed(f"{server} answered {status}", "model-busy", retryable=True, wait=wait)
    if status in (401, 403):
        raise ModelFailed(f"{server} answered {status}: its credential's key is not valid", "model-rejected")
    if status != 200:  # an answer's text may repeat the key or the page
        sentence = f"{server} answered {status}; the model's name '{model.name}' or its endpoint may be wrong"
        raise ModelFailed(sentence, "model-rejected")
    try:
        value: object = json.loads(answer.body)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise ModelFailed(f"{server} sent no JSON object", "model-answer-invalid", retryable=True)
    return cast("dict[str, Any]", value)


def _hide_path(url: str) -> str:
    """Return scheme and host of a URL, without the parts that may identify a user."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.partition('/')[0].rpartition('@')[2]}"
