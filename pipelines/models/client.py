"""The client of a model: a question with a schema in, a checked answer out, within budgets."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from threading import Lock
from typing import Any, Self, TypeVar, cast

from pydantic import BaseModel, ValidationError

from pipelines.fetch.page import parse_retry_after
from pipelines.http_client.client import HttpResponse, send_request
from pipelines.http_client.guard import Guard
from pipelines.http_client.handles import TimeLimits
from pipelines.models.budget import Budget, ModelFailed, Usage, reserve_all
from pipelines.models.model_choice import Model
from pipelines.models.options import ModelOptions
from pipelines.models.protocols import PROTOCOLS, Completion, Schema, Turn

Answer = TypeVar("Answer", bound=BaseModel)

_MAX_ATTEMPTS = 3  # of one call that the server was too busy for
_MAX_WAIT = 60.0  # seconds; a longer Retry-After fails the call
_FIRST_WAIT = 1.0
_MAX_OUTPUT = 4096  # tokens
_BYTES_PER_TOKEN = 2  # a cautious bound for text that is mostly Latin, for reservations
_OVERHEAD = 200  # tokens of a protocol's own words
_LIMITS = TimeLimits(connect=10, total=180)
_MAX_ANSWER = 4 * 2**20  # bytes
_ADVICE = "a larger {argument}PerHost allows it"


class ModelClient:
    """Asks a model; safe to share between threads. The key is neither in its repr nor in any error."""

    def __init__(
        self,
        model: Model,
        budgets: Sequence[Budget] = (),
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self.model = model
        self._spent = Budget("all calls")
        self._budgets = (self._spent, *budgets)
        self._sleep = sleep

    def __repr__(self) -> str:
        return f"ModelClient({self.model.provider}, {self.model.name})"

    @property
    def usage(self) -> Usage:
        """The cost of all calls of this client."""
        return self._spent.spent

    def add_budget(self, budget: Budget) -> Self:
        """Return a client whose calls count for this one's budgets and for another one."""
        client = copy(self)
        client._budgets = (*self._budgets, budget)
        return client

    def ask(
        self,
        task: str,
        data: str,
        answer: type[Answer],
        budgets: Sequence[Budget] = (),
        max_tokens: int = _MAX_OUTPUT,
    ) -> Answer:
        """Return the model's answer to a task about data, which is never part of the task.

        An answer that does not fit its schema gets one repair turn, which counts as a call. Raises ModelFailed.
        """
        schema = make_schema(answer)
        turns = [Turn("user", data)]
        fault = ""
        for _ in range(2):
            completion = self._complete(task, turns, schema, (*self._budgets, *budgets), max_tokens)
            if completion.ending == "refused":
                raise ModelFailed(f"the model '{self.model.name}' refused to answer", "model-refused")
            try:
                return answer.model_validate_json(_strip_fence(completion.text))
            except ValidationError as error:
                fault = _describe_fault(error, completion)
            said = completion.text or "(nothing)"
            turns = [
                turns[0],
                Turn("assistant", said),
                Turn("user", f"The answer is not valid: {fault}. Answer again."),
            ]
        sentence = f"the model '{self.model.name}' gave no valid answer, also when asked again: {fault}"
        raise ModelFailed(sentence, "model-answer-invalid")

    def _complete(
        self, task: str, turns: Sequence[Turn], schema: Schema, budgets: Sequence[Budget], max_tokens: int
    ) -> Completion:
        """Make one call; retry it while the server is busy."""
        protocol = PROTOCOLS[self.model.protocol]
        body = protocol.make_body(self.model, task, turns, schema, max_tokens)
        size = len(task.encode()) + sum(len(turn.text.encode()) for turn in turns) + len(str(schema))
        estimate = size // _BYTES_PER_TOKEN + _OVERHEAD
        reserved = self.model.compute_usage(estimate, max_tokens)
        reserve_all(budgets, reserved)
        spent = Usage()
        try:
            raw = self._send(protocol.make_headers(self.model), body)
            completion = protocol.read(raw)
            # a server that counts no tokens is believed to have read and written as many tokens as fit the text
            read = completion.tokens_in if completion.tokens_in is not None else estimate
            written = completion.tokens_out if completion.tokens_out is not None else len(completion.text.encode())
            spent = self.model.compute_usage(read, written)
        except ModelFailed as failed:
            if failed.code == "model-answer-invalid":  # the server did work
                spent = reserved
            raise
        finally:
            for budget in budgets:
                budget.settle(reserved, spent)
        return completion

    def _send(self, headers: dict[str, str], body: dict[str, Any]) -> dict[str, Any]:
        for attempt in range(_MAX_ATTEMPTS):
            try:
                return post_json(self.model, headers, body)
            except ModelFailed as failed:
                wait = failed.wait if failed.wait is not None else _FIRST_WAIT * 2**attempt
                if not failed.retryable or attempt == _MAX_ATTEMPTS - 1 or wait > _MAX_WAIT:
                    raise
            self._sleep(wait)
        raise AssertionError("the last attempt returns or raises")


def make_schema(answer: type[BaseModel]) -> Schema:
    """Return the JSON schema of an answer in the subset that all providers accept.

    All properties are required, and no others are allowed; references are resolved, and titles and defaults left out.
    """
    schema = answer.model_json_schema()
    return cast("Schema", _simplify(schema, cast("Schema", schema.get("$defs", {}))))


def _simplify(value: object, definitions: Schema, names: bool = False) -> object:
    """Simplify a part of a schema; `names`: its keys are names of properties."""
    if isinstance(value, list):
        return [_simplify(each, definitions) for each in cast("list[object]", value)]
    if not isinstance(value, dict):
        return value
    part = cast("dict[str, object]", value)
    if not names and isinstance(reference := part.get("$ref"), str):
        return _simplify(definitions[reference.rpartition("/")[2]], definitions)
    left_out = () if names else ("$defs", "title", "default", "maxLength", "maxItems")
    result = {
        name: _simplify(each, definitions, not names and name == "properties")
        for name, each in part.items()
        if name not in left_out
    }
    if not names and "properties" in result:
        result |= {"required": [*cast("Schema", result["properties"])], "additionalProperties": False}
    return result


def _strip_fence(text: str) -> str:
    """Remove the fence of Markdown around JSON."""
    text = text.strip()
    return text.partition("\n")[2].rpartition("```")[0] if text.startswith("```") else text


def _describe_fault(error: ValidationError, completion: Completion) -> str:
    """Describe the fault of an answer without its text, which may be a page's."""
    if completion.ending == "truncated":
        return "it is cut off; give a shorter one"
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    place = ".".join(str(part) for part in first["loc"] if isinstance(part, int) or part.isidentifier())
    return f"{first['type'].replace('_', ' ')} at {place}" if place else first["type"].replace("_", " ")


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


class HostLedger:
    """Gives each host a client whose calls count for its own budget too; safe to share between threads."""

    def __init__(self, client: ModelClient, options: ModelOptions) -> None:
        self.client = client
        self._limits = options.max_calls_per_host, options.max_tokens_per_host, options.max_cost_per_host
        self._hosts: dict[str, tuple[Budget, ModelClient]] = {}
        self._lock = Lock()

    def get_client(self, host: str) -> ModelClient:
        """Return the client for the pages of a host."""
        with self._lock:
            if host not in self._hosts:
                budget = Budget(f"the host {host}", *self._limits, advice=_ADVICE)
                self._hosts[host] = budget, self.client.add_budget(budget)
            return self._hosts[host][1]

    def list_usage(self) -> Mapping[str, Usage]:
        """Return the cost so far by host, of those that have had a call."""
        with self._lock:
            return {host: budget.spent for host, (budget, _) in self._hosts.items() if budget.spent.calls}
