"""Estimates of the cost of a training, from a price table with sources and dates."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, TypeAdapter
from pydantic.alias_generators import to_camel

from core.definitions.identity.api_keys import Identity
from core.errors import BadInput
from core.infra.encryption import KeyRing
from core.lifecycle.usage.bills import MILLION, SECONDS_PER_HOUR, multiply
from core.lifecycle.usage.prices import Price, load_rates
from core.training.examples import write_examples
from core.training.models import TrainingRequest
from core.training.providers.client import get_whole
from core.training.providers.huggingface import FLAVOR
from core.training.providers.protocol import TrainingProvider
from core.training.providers.registry import HUB, LOCAL, find_access, parse_provider_name
from core.training.providers.together import TogetherProvider
from core.training.repository import TrainingRepository
from core.training.service import TrainingService

TABLE = Path(__file__).with_name("prices.yaml")
CURRENCY = "USD"
CHARACTERS_PER_TOKEN = 4
EPOCHS = ("n_epochs", "num_train_epochs", "epochs")
DEFAULT_EPOCHS = {"openai": 3, "together": 1}
HUB_SECONDS = 1800  # after which the Hub ends a job without a timeout
BILLIONS = re.compile(r"(?i)(?<![\w.])(?:\d+x)?(\d+(?:\.\d+)?)b\b")


class TrainingPrice(BaseModel):
    """One price: per million tokens of a model or of models up to a size, or per hour of hardware."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, extra="forbid")

    source: str
    date: date
    models: str | None = None
    billions: float | None = None
    hardware: str | None = None
    per_million: Price | None = None
    per_hour: Price | None = None


@dataclass(frozen=True, slots=True)
class Estimate:
    """A cost, and the figures behind it. `estimated` is False where the provider has counted the tokens."""

    cost: Decimal
    estimated: bool
    tokens: int | None
    examples: int | None
    epochs: int | None
    source: str | None
    price_date: date | None


def estimate_cost(
    service: TrainingService, caller: Identity, provider: str, request: TrainingRequest, key_ring: KeyRing
) -> Estimate:
    """Read the data and multiply by the price; raise BadInput for data or a model that no price can be found for."""
    name = parse_provider_name(provider)
    request.check()
    with service.database.read() as session:
        access = find_access(session, caller.organization_id, name, key_ring, request.cloud_credential_id)
        opened = service.open_checked(name, access, request.model)
        train, _ = service.find_sources(session, caller.organization_id, name, opened, request)
        usual_seconds = TrainingRepository(session, caller.organization_id).measure_seconds(name, request.model)
    if name == HUB:
        return _estimate_hub_job(request)
    if train["kind"] == "provider":
        return _ask_provider(opened, train["id"], request)
    with service.sources.open_scratch() as scratch:
        lines = service.sources.read_lines(caller.organization_id, train, "trainingFile")
        made = write_examples(lines, opened.example_format, scratch, "trainingFile", split=False)
    if name == LOCAL:
        cost = multiply(round(usual_seconds or 0), SECONDS_PER_HOUR, load_rates(service.settings.costs).driver_hour)
        return Estimate(Decimal(cost) / MILLION, True, None, made.examples, None, None, None)
    price = find_price(name, request.model)
    if price is None or price.per_million is None:
        sentence = (
            f"The price table has no price for training '{request.model}'. It has prices of {_list_priced(name)}."
        )
        raise BadInput(sentence, code="unknown-model", path="model")
    epochs = _read_epochs(request, DEFAULT_EPOCHS[name])
    tokens = -(-made.characters // CHARACTERS_PER_TOKEN) * epochs
    cost = price.per_million * tokens / MILLION
    return Estimate(cost, True, tokens, made.examples, epochs, price.source, price.date)


def price_tokens(provider: str, model: str, tokens: int | None) -> Decimal | None:
    """Return the price of tokens that a provider has counted; None where it is not known."""
    price = find_price(provider, model)
    return (
        None if tokens is None or price is None or price.per_million is None else price.per_million * tokens / MILLION
    )


def find_price(provider: str, model: str) -> TrainingPrice | None:
    """Return the price of a model: by its name, or else by its number of parameters."""
    prices = read_prices().get(provider, ())
    base = model.removeprefix("ft:")
    named = next((each for each in prices if each.models and base.startswith(each.models)), None)
    size = BILLIONS.search(model)
    if named or size is None:
        return named
    return next((each for each in prices if each.billions and float(size[1]) <= each.billions), None)


@cache
def read_prices() -> dict[str, Sequence[TrainingPrice]]:
    """Read the shipped table; of one provider, the more special name is first."""
    content: Any = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
    return TypeAdapter(dict[str, list[TrainingPrice]]).validate_python(content)  # pyright: ignore[reportReturnType]


def _ask_provider(provider: TrainingProvider, file_id: str, request: TrainingRequest) -> Estimate:
    """Have Together count the tokens of a file that it has; OpenAI does so only in a training."""
    if not isinstance(provider, TogetherProvider):
        sentence = "The tokens of a provider's own file cannot be counted here. Send the dataset or file instead."
        raise BadInput(sentence, path="trainingFile")
    cost, tokens = provider.estimate_price(request.model, file_id, request.hyperparameters)
    return Estimate(cost, False, tokens, None, _read_epochs(request, 1), "Together AI", None)


def _estimate_hub_job(request: TrainingRequest) -> Estimate:
    """Return the cost of the hardware up to the job's time limit, which is the most that it can be."""
    flavor = request.hyperparameters.get("flavor", FLAVOR)
    price = next((each for each in read_prices()[HUB] if each.hardware == flavor), None)
    if price is None or price.per_hour is None:
        known = ", ".join(each.hardware or "" for each in read_prices()[HUB])
        raise BadInput(f"The price table has no hardware '{flavor}'. It has {known}.", path="hyperparameters.flavor")
    seconds = get_whole(request.hyperparameters, "timeoutSeconds") or HUB_SECONDS
    return Estimate(price.per_hour * seconds / SECONDS_PER_HOUR, True, None, None, None, price.source, price.date)


def _read_epochs(request: TrainingRequest, default: int) -> int:
    found = (get_whole(request.hyperparameters, name) for name in EPOCHS)
    return max(1, next((number for number in found if number is not None), default))


def _list_priced(provider: str) -> str:
    prices = read_prices()[provider]
    return ", ".join(each.models or f"models of up to {each.billions:g} billion parameters" for each in prices)
