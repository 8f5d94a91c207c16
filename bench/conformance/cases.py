"""A case of a suite: a question that the product and its peers answer, and the right answer."""

from __future__ import annotations

from dataclasses import dataclass, field

from bench.service import Json


@dataclass(frozen=True, slots=True)
class Case:
    """`question` and `expected` are JSON; bytes are texts of latin-1. `others` are right as well."""

    name: str
    question: Json
    expected: Json
    others: list[Json] = field(default_factory=list)

    def is_right(self, answer: Json) -> bool:
        return answer == self.expected or answer in self.others
