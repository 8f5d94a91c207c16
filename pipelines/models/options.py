"""The options of a language model: those of a pipeline, a project or a service."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, PositiveFloat, PositiveInt

from pipelines.language.arguments import Arguments
from pipelines.language.names import validate_choice
from pipelines.models.model_choice import PROVIDERS


class ModelOptions(Arguments):
    """The language model of a run, and the most that it may spend."""

    provider: Annotated[str, validate_choice("provider", PROVIDERS)] | None = Field(
        default=None, description="TOGETHERAI, OPENAI or ANTHROPIC; by default the first that has a credential"
    )
    name: str | None = Field(default=None, min_length=1, max_length=200, description="by default the provider's")
    max_calls: PositiveInt | None = Field(default=None, alias="maxCalls", description="calls of the model")
    max_tokens: PositiveInt | None = Field(default=None, alias="maxTokens", description="tokens, read and written")
    max_cost: PositiveFloat | None = Field(default=None, alias="maxCost", description="US dollars")

    max_calls_per_host: PositiveInt | None = Field(
        default=None, alias="maxCallsPerHost", description="calls for the pages of one host"
    )
    max_tokens_per_host: PositiveInt | None = Field(
        default=None, alias="maxTokensPerHost", description="tokens for the pages of one host"
    )
    max_cost_per_host: PositiveFloat | None = Field(
        default=None, alias="maxCostPerHost", description="US dollars for the pages of one host"
    )

    @property
    def has_budget(self) -> bool:
        """Whether the spending of a run has a limit."""
        return any(each is not None for each in (self.max_calls, self.max_tokens, self.max_cost))

    def describe_budget(self) -> str:
        """Return the most that a run may spend."""
        run = _describe_limits(self.max_calls, self.max_tokens, self.max_cost)
        host = _describe_limits(self.max_calls_per_host, self.max_tokens_per_host, self.max_cost_per_host)
        given = [each for each in (run, f"{host} for each host" if host else "") if each]
        if given:
            return f"at most {'; '.join(given)}"
        return "5 calls for each kind of page and 10 for a prompt in the browser, without a limit"


def _describe_limits(calls: int | None, tokens: int | None, cost: float | None) -> str:
    limits = (
        f"{calls:,} calls" if calls else "",
        f"{tokens:,} tokens" if tokens else "",
        f"${cost:,.2f}" if cost else "",
    )
    return ", ".join(each for each in limits if each)
