"""A model server on loopback that speaks both protocols and answers by rules, with faults on purpose."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import SecretStr

from pipelines.models.model_choice import Model
from tests.support.servers import Handler, serve

Json = dict[str, Any]
Fault = Literal["429", "500", "malformed", "invalid", "refusal", "truncated", "no-usage"]
Rule = Callable[[str, Json, Json], object]  # task, data and schema -> answer

KEY = "sk-secret-of-the-tests"


@dataclass
class ModelServer:
    """A running server: its address, the rule of its answers, the faults of the next requests, and all requests."""

    url: str = ""
    rule: Rule = lambda task, data, schema: {}
    faults: list[Fault] = field(default_factory=list[Fault])
    requests: list[Json] = field(default_factory=list[Json])

    def make_model(self, provider: str = "OPENAI", key: str = KEY) -> Model:
        """Return the model of this server for one of the providers."""
        return Model(provider, "rules-1", SecretStr(key), self.url, ("127.0.0.0/8",))


def answer_truth(
    truth: Mapping[str, Mapping[str, str | None]],
    proposals: Mapping[str, Sequence[tuple[str, str]]] | None = None,
) -> Rule:
    """Return a rule that reads pages rightly: `truth` has the values of each page by a text that it alone contains.

    Proposals are selectors and methods by field.
    """

    def answer(task: str, data: Json, schema: Json) -> object:
        if "pages" not in schema["properties"]:
            return {name: _propose((proposals or {}).get(name, ())) for name in schema["properties"]}
        content = schema["properties"]["pages"]["items"]["properties"]["content"]
        names = content["properties"] if content["type"] == "object" else []
        pages = []
        for page in data["pages"]:
            # 'Clock no. 1' is not in the text of 'Clock no. 12'
            marked = (each for mark, each in truth.items() if re.search(rf"{re.escape(mark)}(?!\d)", page["text"]))
            values = next(marked, {})
            fields = {name: {"value": values.get(name), "cue": None} for name in names}
            pages.append({"page": page["page"], "content": fields})
        return {"pages": pages}

    return answer


def _propose(readings: Sequence[tuple[str, str]]) -> list[Json]:
    found = []
    for selector, method in readings:
        kind, _, attribute = method.partition(":")
        found.append({"selector": selector, "method": kind, "attribute": attribute or None})
    return found


@contextmanager
def serve_model(rule: Rule | None = None) -> Generator[ModelServer]:
    """Serve a model on a free port."""
    server = ModelServer()
    if rule:
        server.rule = rule

    class ModelHandler(Handler):
        def do_POST(self) -> None:
            body = json.loads(self.read_body())
            is_anthropic = self.path.endswith("/messages")
            server.requests.append({"path": self.path, "headers": dict(self.headers), "body": body})
            fault = server.faults.pop(0) if server.faults else None
            if fault in ("429", "500"):
                self.respond(int(fault), "busy", Retry_After="1")
                return
            answer = _answer_anthropic if is_anthropic else _answer_openai
            self.respond(body=json.dumps(answer(server.rule, body, fault)), content_type="application/json")

    with serve(ModelHandler) as server.url:
        yield server


def _answer_openai(rule: Rule, body: Json, fault: Fault | None) -> Json:
    messages = body["messages"]
    schema = body["response_format"]["json_schema"]["schema"]
    text = json.dumps(rule(messages[0]["content"], json.loads(messages[1]["content"]), schema))
    message: Json = {"role": "assistant", "content": _spoil(text, fault), "refusal": None}
    if fault == "refusal":
        message |= {"content": None, "refusal": "I cannot do that."}
    choice = {"message": message, "finish_reason": "length" if fault == "truncated" else "stop"}
    tokens = {"prompt_tokens": len(json.dumps(messages)) // 4, "completion_tokens": len(text) // 4}
    return {"choices": [choice], **({} if fault == "no-usage" else {"usage": tokens})}


def _answer_anthropic(rule: Rule, body: Json, fault: Fault | None) -> Json:
    schema = body["tools"][0]["input_schema"]
    given = rule(body["system"], json.loads(body["messages"][0]["content"]), schema)
    block: Json = {"type": "tool_use", "name": "answer", "input": given}
    if fault in ("malformed", "invalid", "truncated"):
        block = {"type": "text", "text": _spoil(json.dumps(given), fault)}
    reason = {"refusal": "refusal", "truncated": "max_tokens"}.get(fault or "", "tool_use")
    tokens = {"input_tokens": len(json.dumps(body["messages"])) // 4, "output_tokens": len(json.dumps(given)) // 4}
    content = [] if fault == "refusal" else [block]
    return {"content": content, "stop_reason": reason, **({} if fault == "no-usage" else {"usage": tokens})}


def _spoil(text: str, fault: Fault | None) -> str:
    if fault == "malformed":
        return "Here is the answer: " + text
    if fault == "invalid":
        return '{"somethingElse": 1}'
    return text[: len(text) // 2] if fault == "truncated" else text
