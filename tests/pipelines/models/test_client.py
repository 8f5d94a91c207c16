"""The client: both protocols, faults of servers, budgets, and keys that stay secret."""

from __future__ import annotations

from collections.abc import Generator

import pytest
from pydantic import BaseModel, ConfigDict, SecretStr

from pipelines.models.budget import Allowance, Budget, ModelFailed, Usage
from pipelines.models.client import HostLedger, ModelClient, make_schema
from pipelines.models.model_choice import Model
from pipelines.models.options import ModelOptions
from tests.support.models import KEY, Fault, Json, ModelServer, serve_model

PROTOCOLS = pytest.mark.parametrize("provider", ["OPENAI", "TOGETHERAI", "ANTHROPIC"])


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid")
    value: str | None


class Colour(BaseModel):
    model_config = ConfigDict(extra="forbid")
    title: Part
    colours: list[str]


def answer(task: str, data: Json, schema: Json) -> object:
    return {"title": {"value": data["title"]}, "colours": ["red"]}


@pytest.fixture
def server() -> Generator[ModelServer]:
    with serve_model(answer) as server:
        yield server


def make_client(server: ModelServer, provider: str = "OPENAI", *budgets: Budget) -> tuple[ModelClient, list[float]]:
    waits: list[float] = []
    return ModelClient(server.make_model(provider), budgets, waits.append), waits


def ask(client: ModelClient) -> Colour:
    return client.ask("Read it.", '{"title": "A"}', Colour)


@PROTOCOLS
def test_both_protocols_answer_by_schema(server: ModelServer, provider: str) -> None:
    client, _ = make_client(server, provider)
    assert ask(client) == Colour(title=Part(value="A"), colours=["red"])
    assert client.usage.calls == 1
    assert client.usage.tokens_in > 0
    assert client.usage.cost == 0  # an endpoint of the user's own has no price
    headers = server.requests[0]["headers"]
    assert headers["x-api-key" if provider == "ANTHROPIC" else "Authorization"].endswith(KEY)


def test_all_properties_are_required_and_none_is_additional() -> None:
    schema = make_schema(Colour)
    part = {
        "type": "object",
        "properties": {"value": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
        "required": ["value"],
        "additionalProperties": False,
    }
    assert schema["properties"]["title"] == part
    assert schema["required"] == ["title", "colours"]
    assert "$defs" not in schema
    assert schema["additionalProperties"] is False


@PROTOCOLS
@pytest.mark.parametrize("fault", ["malformed", "invalid", "truncated"])
def test_an_invalid_answer_gets_one_repair_turn(server: ModelServer, provider: str, fault: Fault) -> None:
    client, _ = make_client(server, provider)
    server.faults = [fault]
    assert ask(client).title.value == "A"
    assert client.usage.calls == 2


@PROTOCOLS
def test_a_second_invalid_answer_fails(server: ModelServer, provider: str) -> None:
    client, _ = make_client(server, provider)
    server.faults = ["malformed", "invalid"]
    with pytest.raises(ModelFailed, match="no valid answer") as failed:
        ask(client)
    assert failed.value.code == "model-answer-invalid"
    assert len(server.requests) == 2


@PROTOCOLS
def test_a_refusal_fails_at_once(server: ModelServer, provider: str) -> None:
    client, _ = make_client(server, provider)
    server.faults = ["refusal"]
    with pytest.raises(ModelFailed) as failed:
        ask(client)
    assert failed.value.code == "model-refused"
    assert client.usage.calls == len(server.requests) == 1


def test_retry_after_is_honoured_and_retries_end(server: ModelServer) -> None:
    client, waits = make_client(server)
    server.faults = ["429", "500"]
    assert ask(client).title.value == "A"
    assert waits == [1.0, 1.0]
    server.faults = ["429", "429", "429", "429"]
    with pytest.raises(ModelFailed) as failed:
        ask(client)
    assert failed.value.code == "model-busy"
    assert len(server.requests) == 6
    assert client.usage.calls == 1  # a busy server has answered nothing


def test_a_call_that_may_exceed_a_budget_is_not_made(server: ModelServer) -> None:
    execution, host = Budget("this execution", max_calls=5), Budget("the host shop.test", max_calls=1)
    client, _ = make_client(server, "OPENAI", execution, host)
    ask(client)
    with pytest.raises(ModelFailed, match=r"the budget of the host shop\.test, 1 calls") as failed:
        ask(client)
    assert failed.value.code == "budget-spent"
    assert len(server.requests) == execution.spent.calls == 1
    execution.reserve(Usage(calls=4))  # the refused call has left nothing reserved


def test_an_organization_that_has_spent_its_day_makes_no_call(server: ModelServer) -> None:
    client, _ = make_client(server, "OPENAI", Allowance(calls=0, cost=1.0).open_budget())
    with pytest.raises(ModelFailed, match="begins again at midnight UTC") as failed:
        ask(client)
    assert (failed.value.code, server.requests) == ("budget-spent", [])


def test_tokens_are_bounded_before_the_call_and_counted_after_it(server: ModelServer) -> None:
    budget = Budget("this execution", max_tokens=4800)
    client, _ = make_client(server, "OPENAI", budget)
    server.faults = ["no-usage"]
    ask(client)
    assert 0 < budget.spent.tokens < 4800
    with pytest.raises(ModelFailed, match="tokens"):
        client.ask("Read it.", '{"title": "A"}', Colour, max_tokens=4800)
    assert len(server.requests) == 1


def test_money_has_a_bound_also_where_no_price_is_known() -> None:
    known, unknown = Model("OPENAI", "gpt-4o-mini"), Model("OPENAI", "brand-new")
    assert known.compute_usage(1_000_000, 0).cost == pytest.approx(0.15)
    assert unknown.compute_usage(1_000_000, 0).cost == pytest.approx(15)
    client = ModelClient(unknown, [Budget("this execution", max_cost=0.01)])
    with pytest.raises(ModelFailed, match="maxCost"):
        ask(client)


def test_the_guard_refuses_private_addresses(server: ModelServer) -> None:
    model = Model("OPENAI", "m", SecretStr(KEY), server.url)
    with pytest.raises(ModelFailed, match="may not be called") as failed:
        ask(ModelClient(model))
    assert failed.value.code == "model-unreachable"
    assert server.requests == []


def test_the_key_is_in_no_repr_and_no_error(server: ModelServer) -> None:
    model = server.make_model()
    client = ModelClient(model, (), lambda _: None)
    server.faults = ["500", "500", "500", "refusal", "malformed", "malformed"]
    shown = [repr(model), str(model), repr(client)]
    for _ in range(3):
        with pytest.raises(ModelFailed) as failed:
            ask(client)
        shown += [str(failed.value), repr(failed.value)]
    assert not any(KEY in text for text in shown)


def test_an_unreachable_server_is_a_failure_that_may_pass() -> None:
    model = Model("OPENAI", "m", None, "http://127.0.0.1:9", ("127.0.0.0/8",))
    with pytest.raises(ModelFailed, match="cannot be reached") as failed:
        ask(ModelClient(model, (), lambda _: None))
    assert failed.value.retryable


def test_a_ledger_limits_and_counts_each_host(server: ModelServer) -> None:
    client, _ = make_client(server)
    ledger = HostLedger(client, ModelOptions.model_validate({"maxCallsPerHost": 1}))
    for host in ("a.test", "b.test"):
        ask(ledger.get_client(host))
    with pytest.raises(ModelFailed, match=r"the host a\.test, 1 calls; a larger maxCallsPerHost allows it") as failed:
        ask(ledger.get_client("a.test"))
    assert failed.value.code == "budget-spent"
    assert [(host, usage.calls) for host, usage in ledger.list_usage().items()] == [("a.test", 1), ("b.test", 1)]
    assert client.usage.calls == len(server.requests) == 2
