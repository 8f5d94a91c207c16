"""Inference with a real model, which may be wrong: gate, grounding, budgets and token counts hold all the same.

SPINDLE_TEST_MODEL_URL names an endpoint that speaks OpenAI's and Anthropic's protocols, SPINDLE_TEST_MODEL_NAME the
model, SPINDLE_TEST_MODEL_KEY its key if it needs one. `bin/test --model` runs these tests.
"""

from __future__ import annotations

import os

import pytest
from pydantic import SecretStr

from pipelines.inference import Inference, get_features, infer, read_values
from pipelines.inference.grounding import values_agree
from pipelines.models import Budget, Model, ModelClient
from tests.support.templates import HOST, ask_for_all, make_pages

URL = os.environ.get("SPINDLE_TEST_MODEL_URL")
pytestmark = [pytest.mark.long, pytest.mark.skipif(not URL, reason="SPINDLE_TEST_MODEL_URL names no model")]
PAGES = make_pages("classes", 6)


def make_client(provider: str, budget: Budget) -> ModelClient:
    key = os.environ.get("SPINDLE_TEST_MODEL_KEY", "none")
    name = os.environ.get("SPINDLE_TEST_MODEL_NAME", "default")
    networks = ("127.0.0.0/8", "::1/128", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")
    return ModelClient(Model(provider, name, SecretStr(key), URL, networks), (budget,))


def infer_all(client: ModelClient) -> Inference:
    samples = [page.make_sample() for page in PAGES]
    features = get_features(samples[0].element.document)
    return infer(ask_for_all(), HOST, "classes", features, samples, client)


def test_what_passes_the_gate_is_right_and_all_values_stand_on_their_pages() -> None:
    budget = Budget("the test", max_calls=5)
    client = make_client("OPENAI", budget)
    found = infer_all(client)
    assert found.failure is None
    assert 0 < found.usage.calls <= 5
    assert found.usage == client.usage == budget.spent
    assert found.usage.tokens_in > 50 * found.usage.calls
    assert found.usage.tokens_out > 0
    for page, values in zip(PAGES, found.values, strict=True):
        assert all(each.text in page.make_sample().element.text() for each in values.values())
    assert found.record is not None
    for page in make_pages("classes", 20, 100):  # none of them was shown to the model
        for name, value in read_values(found.record, page.make_sample().element).items():
            assert value is None or values_agree(value.value, page.values[name])


def test_a_budget_ends_an_inference_over_the_other_protocol() -> None:
    budget = Budget("the test", max_calls=1)
    client = make_client("ANTHROPIC", budget)
    found = infer_all(client)
    assert (found.record, found.usage.calls, budget.spent.calls) == (None, 1, 1)
    assert found.usage.tokens_in > 50
    assert found.failure is not None
    assert "maxCalls" in found.failure
