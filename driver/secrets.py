"""Credential variables: the driver alone knows their values, and what it tells shows none of them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, cast

from driver.spec import ExecutionSpec
from pipelines.fetch.urls import MIN_SECRET_LENGTH, spellings
from pipelines.language.names import ELLIPSIS
from pipelines.language.parameters import Value

MASK = "********"
_LEAST_BEGINNING = 4  # of one that was cut


class Secrets:
    """The credential variables that a spec names, from the environment."""

    def __init__(self, spec: ExecutionSpec) -> None:
        self._values = {name: os.environ[name] for name in spec.credentials if name in os.environ}
        self._spellings = sorted({each for value in self.values for each in spellings(value)}, key=len, reverse=True)

    @property
    def values(self) -> tuple[str, ...]:
        """The values that are long enough to be secrets."""
        return tuple(value for value in self._values.values() if len(value) >= MIN_SECRET_LENGTH)

    def revealed(self, parameters: Mapping[str, Value]) -> dict[str, Value]:
        """The parameters with the values of those that stand for a credential variable, as `${NAME}` of itself."""
        secret = {name: value for name, value in self._values.items() if parameters.get(name) == f"${{{name}}}"}
        return {**parameters, **secret}

    def hidden(self, value: Any) -> Any:
        """JSON in which the values show as asterisks, and so what is left of one where a text was cut."""
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, dict):
            return {key: self.hidden(each) for key, each in cast(dict[str, Any], value).items()}
        return [self.hidden(each) for each in cast(list[Any], value)] if isinstance(value, list) else value

    def _text(self, text: str) -> str:
        for spelled in self._spellings:
            text = text.replace(spelled, MASK)
        *cut, rest = text.split(ELLIPSIS)
        return ELLIPSIS.join([*map(self._cut, cut), rest])

    def _cut(self, text: str) -> str:
        """A text that was cut at its end, without the beginning of a value that ends it."""
        left = (
            size
            for spelled in self._spellings
            for size in range(_LEAST_BEGINNING, min(len(spelled), len(text) + 1))
            if text.endswith(spelled[:size])
        )
        size = max(left, default=0)
        return text[:-size] + MASK if size else text
