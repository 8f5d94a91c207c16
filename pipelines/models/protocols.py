"""Two protocols: OpenAI's chat completions and Anthropic's messages, as a request and the parts of its answer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, cast

from pipelines.models.model_choice import Model

Schema = dict[str, Any]
_NAME = "answer"


@dataclass(frozen=True, slots=True)
class Turn:
    """One message of a conversation."""

    role: Literal["user", "assistant"]
    text: str


@dataclass(frozen=True, slots=True)
class Completion:
    """An answer: its JSON text, why it ended, and the tokens that the server counted (None: it did not)."""

    text: str
    ending: Literal["complete", "truncated", "refused"]
    tokens_in: int | None
    tokens_out: int | None


class ModelProtocol(Protocol):
    """Requests and answers of one protocol."""

    def make_headers(self, model: Model) -> dict[str, str]: ...

    def make_body(
        self, model: Model, task: str, turns: Sequence[Turn], schema: Schema, max_tokens: int
    ) -> dict[str, Any]: ...

    def read(self, answer: dict[str, Any]) -> Completion: ...


class OpenAiProtocol:
    """Chat completions with a JSON schema, as OpenAI, Together, Ollama, vLLM and llama.cpp speak them."""

    def make_headers(self, model: Model) -> dict[str, str]:
        return {"Authorization": f"Bearer {model.key.get_secret_value()}"} if model.key else {}

    def make_body(
        self, model: Model, task: str, turns: Sequence[Turn], schema: Schema, max_tokens: int
    ) -> dict[str, Any]:
        messages = [{"role": "system", "content": task}, *({"role": each.role, "content": each.text} for each in turns)]
        # OpenAI's newer models accept only this name, other servers only the older one
        limit = "max_tokens" if model.endpoint or model.provider.upper() != "OPENAI" else "max_completion_tokens"
        form = {"type": "json_schema", "json_schema": {"name": _NAME, "strict": True, "schema": schema}}
        return {"model": model.name, "messages": messages, "response_format": form, limit: max_tokens}

    def read(self, answer: dict[str, Any]) -> Completion:
        choice = _get_object(_get_first(answer.get("choices")))
        message, usage = _get_object(choice.get("message")), _get_object(answer.get("usage"))
        reason = choice.get("finish_reason")
        ending = "truncated" if reason == "length" else "complete"
        if message.get("refusal") or reason == "content_filter":
            ending = "refused"
        text = message.get("content")
        return Completion(
            text if isinstance(text, str) else "",
            ending,
            _get_count(usage.get("prompt_tokens")),
            _get_count(usage.get("completion_tokens")),
        )


class AnthropicProtocol:
    """Anthropic's messages; the schema is that of a tool which the model has to use."""

    def make_headers(self, model: Model) -> dict[str, str]:
        key = {"x-api-key": model.key.get_secret_value()} if model.key else {}
        return {"anthropic-version": "2023-06-01", **key}

    def make_body(
        self, model: Model, task: str, turns: Sequence[Turn], schema: Schema, max_tokens: int
    ) -> dict[str, Any]:
        return {
            "model": model.name,
            "max_tokens": max_tokens,
            "system": task,
            "messages": [{"role": each.role, "content": each.text} for each in turns],
            "tools": [{"name": _NAME, "description": "Give the answer.", "input_schema": schema}],
            "tool_choice": {"type": "tool", "name": _NAME},
        }

    def read(self, answer: dict[str, Any]) -> Completion:
        content, usage = answer.get("content"), _get_object(answer.get("usage"))
        blocks = [_get_object(each) for each in cast("list[object]", content)] if isinstance(content, list) else []
        inputs = [json.dumps(each.get("input")) for each in blocks if each.get("type") == "tool_use"]
        texts = [text for each in blocks if isinstance(text := each.get("text"), str)]
        ending = {"max_tokens": "truncated", "refusal": "refused"}.get(str(answer.get("stop_reason")), "complete")
        return Completion(
            inputs[0] if inputs else "".join(texts),
            cast("Literal['complete', 'truncated', 'refused']", ending),
            _get_count(usage.get("input_tokens")),
            _get_count(usage.get("output_tokens")),
        )


PROTOCOLS: dict[str, ModelProtocol] = {"openai": OpenAiProtocol(), "anthropic": AnthropicProtocol()}


def _get_object(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _get_first(value: object) -> object:
    return cast("list[object]", value)[0] if isinstance(value, list) and value else None


def _get_count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
