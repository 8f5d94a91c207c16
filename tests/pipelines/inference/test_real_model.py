"""Inference with a real model, which may be wrong: gate, grounding, budgets and token counts hold all the same.

SPINDLE_TEST_MODEL_URL names an endpoint that speaks OpenAI's and Anthropic's protocols, SPINDLE_TEST_MODEL_NAME the
model, SPINDLE_TEST_MODEL_KEY its key if it needs one. `bin/test --model` runs only these tests; `.ci/run` starts a
small model for them.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import TypeVar

import pytest
from pydantic import BaseModel, SecretStr

from pipelines.inference.grounding import values_agree
from pipelines.inference.proving import Inference, infer
from pipelines.inference.reading import read_values
from pipelines.inference.templates import get_features
from pipelines.models.budget import Budget, ModelFailed
from pipelines.models.client import ModelClient
from pipelines.models.model_choice import Model
from tests.support.templates import HOST, ask_for_all, make_pages

URL = os.environ.get("SPINDLE_TEST_MODEL_URL")
pytestmark = [pytest.mark.long, pytest.mark.skipif(not URL, reason="SPINDLE_TEST_MODEL_URL names no model")]
PAGES = make_pages(
    "classes", 2
)  # few calls: the test bed's model takes 30 s for each, and on a busy machine two minutes
MOST_TOKENS = 200  # of an answer: a small model may repeat itself without an end

Form = TypeVar("Form", bound=BaseModel)


class BriefClient(ModelClient):
    """A client whose answers are cut off early."""

    def ask(
        self, task: str, data: str, answer: type[Form], budgets: Sequence[Budget] = (), max_tokens: int = MOST_TOKENS
    ) -> Form:
        return super().ask(task, data, answer, budgets, max_tokens)


def make_client(provider: str, budget: Budget) -> ModelClient:
    key = os.environ.get("SPINDLE_TEST_MODEL_KEY", "none")
    name = os.environ.get("SPINDLE_TEST_MODEL_NAME", "default")
    networks = ("127.0.0.0/8", "::1/128", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")
    return BriefClient(Model(provider, name, SecretStr(key), URL, networks), (budget,))


def infer_all(client: ModelClient) -> Inference:
    samples = [page.make_sample() for page in PAGES]
    features = get_features(samples[0].element.document)
    return infer(ask_for_all(), HOST, "classes", features, samples, client)


@pytest.mark.variant
def test_what_passes_the_gate_is_right_and_all_values_stand_on_their_pages() -> None:
    budget = Budget("the test", max_calls=2)
    client = make_client("OPENAI", budget)
    found = infer_all(client)
    if "timed out after" in str(found.failure):
        pytest.skip("the model takes more than three minutes for an answer on this machine")
    assert 0 < found.usage.calls <= 2
    assert found.usage == client.usage == budget.spent
    assert found.usage.tokens_in > 50 * found.usage.calls
    assert found.usage.tokens_out > 0
    for page, values in zip(PAGES, found.values, strict=True):
        assert all(each.text in page.make_sample().element.text() for each in values.values())
    if found.record is None:
        assert any(words in str(found.failure) for words in ("maxCalls", "gave no valid answer"))
        return
    for page in make_pages("classes", 20, 100):  # none of them was shown to the model
        for name, value in read_values(found.record, page.make_sample().element).items():
            assert value is None or values_agree(value.value, page.values[name])


class Heading(BaseModel):
    """The heading of a page."""

    title: str


def test_the_other_protocol_counts_tokens_and_a_budget_ends_it() -> None:
    budget = Budget("the test", max_calls=1)
    client = make_client("ANTHROPIC", budget)
    with suppress(ModelFailed):  # an answer that does not fit its form would need a second call
        client.ask("Give the title.", '{"text": "Kettle"}', Heading, max_tokens=40)
    assert client.usage == budget.spent
    assert (client.usage.calls, client.usage.tokens_out > 0) == (1, True)
    with pytest.raises(ModelFailed, match="maxCalls"):
        client.ask("Give the title.", '{"text": "Kettle"}', Heading)
