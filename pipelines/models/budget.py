"""Budgets of calls, tokens and money, shared by the threads of a process."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from threading import Lock
from typing import Literal

FailureCode = Literal[
    "budget-spent",
    "model-answer-invalid",
    "model-busy",
    "model-refused",
    "model-rejected",
    "model-unreachable",
]


@dataclass(frozen=True, slots=True)
class Usage:
    """Calls of a model with their tokens and cost in US dollars; the cost is a bound where no price is known."""

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost: float = 0.0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.calls + other.calls,
            self.tokens_in + other.tokens_in,
            self.tokens_out + other.tokens_out,
            self.cost + other.cost,
        )

    def __sub__(self, other: Usage) -> Usage:
        return self + Usage(-other.calls, -other.tokens_in, -other.tokens_out, -other.cost)

    @property
    def tokens(self) -> int:
        return self.tokens_in + self.tokens_out


@dataclass(frozen=True, slots=True)
class Allowance:
    """Calls, tokens and US dollars that an organization may still spend today; None is no limit."""

    calls: int | None = None
    tokens: int | None = None
    cost: float | None = None

    def open_budget(self) -> Budget:
        """Return the allowance as a budget of a run."""
        advice = "it begins again at midnight UTC, and the operator may raise it"
        return Budget("the rest of the organization's day", self.calls, self.tokens, self.cost, advice)


class Budget:
    """The most that an execution, a host or an organization may spend; None is no limit, 0 allows no call.

    `advice` says what to do when it is spent; it may name the `{argument}` of the limit.

    A call reserves the most that it can cost before it is made, so that calls of several threads stay below the limit.
    """

    def __init__(
        self,
        name: str,
        max_calls: int | None = None,
        max_tokens: int | None = None,
        max_cost: float | None = None,
        advice: str = "a larger {argument} allows it",
    ) -> None:
        self.name = name
        self._limits = (
            ("calls", max_calls, "maxCalls"),
            ("tokens", max_tokens, "maxTokens"),
            ("cost", max_cost, "maxCost"),
        )
        self._advice = advice
        self._spent = Usage()
        self._reserved = Usage()
        self._lock = Lock()

    @property
    def spent(self) -> Usage:
        """The cost of finished calls."""
        return self._spent

    def reserve(self, usage: Usage) -> None:
        """Reserve the most that a call can cost; raise ModelFailed when it does not fit."""
        with self._lock:
            total = self._spent + self._reserved + usage
            for kind, limit, argument in self._limits:
                if limit is not None and getattr(total, kind) > limit + 1e-9:
                    raise ModelFailed(
                        f"the next call of the model may exceed the budget of {self.name}, {limit:,} {kind}; "
                        + self._advice.format(argument=argument),
                        "budget-spent",
                    )
            self._reserved += usage

    def settle(self, reserved: Usage, spent: Usage) -> None:
        """Replace a reservation by the cost of the call."""
        with self._lock:
            self._reserved -= reserved
            self._spent += spent


def reserve_all(budgets: Iterable[Budget], usage: Usage) -> None:
    """Reserve a call in all budgets or in none."""
    done: list[Budget] = []
    try:
        for budget in budgets:
            budget.reserve(usage)
            done.append(budget)
    except ModelFailed:
        for budget in done:
            budget.settle(usage, Usage())
        raise


class ModelFailed(Exception):
    """A model gave no usable answer; the message is a sentence without secrets.

    `retryable`: the same question may be answered later. `wait`: the seconds of the server's Retry-After header.
    """

    def __init__(self, sentence: str, code: FailureCode, *, retryable: bool = False, wait: float | None = None) -> None:
        super().__init__(sentence)
        self.code: FailureCode = code
        self.retryable = retryable
        self.wait = wait
