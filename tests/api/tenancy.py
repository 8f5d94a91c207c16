"""What every operation is held to: another organization's records are answered like records that do not exist."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import httpx

from tests.api.operations import Operation, addresses_a_record
from tests.api.world import World, make_world, unknown
from tests.support.api import Api

VOLATILE = {"date", "x-request-id", "ratelimit-remaining", "ratelimit-reset"}
TIMESTAMP = re.compile(rb'"timestamp":"[^"]*"')
# ids and names of nothing that this service has
FREE = {
    *("botId", "clusterConfigId", "codeTypeId", "engineId", "executionReferenceId", "accessKeyId", "organizationId"),
    "podName",
}
OWN_WORDS = "/audit"  # has the ids that the caller itself has named in vain: see test_people.py
STREAM_SECONDS = 0.5


@dataclass(frozen=True)
class Tenants:
    """A caller, their records, those of another organization, and records of the caller that no body has changed."""

    caller: Api
    own: World
    foreign: World
    unwritten: list[World] = field(default_factory=list[World])

    def check(self, operation: Operation) -> None:
        """Raises AssertionError where the operation tells anything of the other organization."""
        self._check_paths(operation)
        self._check_queries(operation)
        self._check_bodies(operation)
        if operation.method == "GET" and not operation.path.endswith(OWN_WORDS):
            self._check_answer(operation)

    def _check_paths(self, operation: Operation) -> None:
        for name in operation.path_parameters:
            if addresses_a_record(name):
                assert name in self.foreign, f"tests/api/world.py makes no record that {{{name}}} of {operation} means"
        known = [name for name in operation.path_parameters if name in self.foreign]
        for names in [known, *([name] for name in known)] if known else []:
            answers = [self._call(operation, self.own | values) for values in self._pair(names)]
            self._check_alike(operation, answers, names)
            if any(map(addresses_a_record, names)):
                is_for_operators = answers[0].status == 403 and b'"missing-scope"' in answers[0].content
                assert is_for_operators or answers[0].status == 404, f"{operation} answers {names}: {answers[0]}"

    def _check_queries(self, operation: Operation) -> None:
        for name in filter(addresses_a_record, set(operation.query_parameters) - FREE):
            answers = [
                self._call(operation, self.own, query={name: self._of_noun(values, name)})
                for values in self._pair(self.foreign)
            ]
            self._check_alike(operation, answers, [name])

    def _check_bodies(self, operation: Operation) -> None:
        for name, kind in ((operation.body_schema or {}).get("properties") or {}).items():
            if not name.endswith(("Id", "Ids")) or name in FREE:
                continue
            many = "array" in str(kind)
            values = [self._of_noun(world, name.removesuffix("s")) for world in self._pair(self.foreign)]
            own = self.unwritten.pop() if self.unwritten else make_world(self.caller, f"own {uuid4().hex}")
            bodies = [{**operation.body(own), name: [value] if many else value} for value in values]
            answers = [self._call(operation, own, body=body) for body in bodies]
            if all(answer.status >= 400 for answer in answers):
                self.unwritten.append(own)
            self._check_alike(operation, answers, [name])
            self._check_shown(operation, answers[0].content.decode().replace(values[0], ""))

    def _check_alike(self, operation: Operation, answers: Sequence[Answer], names: Iterable[str]) -> None:
        """Two calls that both write something answer with two records; all else is the same byte for byte."""
        wrote = operation.method != "GET" and answers[0].status < 300
        same = answers[0].status == answers[1].status if wrote else answers[0] == answers[1]
        assert same, f"{operation} tells another organization's {', '.join(names)} from unknown ones: {answers}"

    def _check_answer(self, operation: Operation) -> None:
        """What the caller may read holds nothing of the others."""
        url, params = operation.path.format_map(_Sampled(self.own)), operation.query
        text = (
            _text(self.caller, url, params) if operation.streams else self.caller.call("GET", url, params=params).text
        )
        self._check_shown(operation, text)

    def _check_shown(self, operation: Operation, text: str) -> None:
        shown = [name for name, value in self.foreign.items() if len(value) > 10 and value in text]
        assert not shown, f"{operation} shows another organization's {shown}"

    def _pair(self, names: Any) -> tuple[World, World]:
        """The values that another organization's records have, and values that no record has."""
        return {name: self.foreign[name] for name in names}, {name: unknown(name) for name in names}

    def _of_noun(self, values: Mapping[str, str], name: str) -> str:
        """`inputDatasetId` means a `datasetId`."""
        for noun, value in values.items():
            if name.lower().endswith(noun.lower()):
                return value
        raise AssertionError(f"tests/api/world.py makes no record that '{name}' means, and FREE does not list it")

    def _call(self, operation: Operation, values: World, *, body: Any = None, query: Any = None) -> Answer:
        return Answer.of(
            self.caller.call(
                operation.method,
                operation.path.format_map(_Sampled(values)),
                json=operation.body(values) if body is None else body,
                params=operation.query | (query or {}),
            )
        )


@dataclass(frozen=True)
class Answer:
    """All of an answer but its time."""

    status: int
    headers: frozenset[tuple[str, str]]
    content: bytes

    @classmethod
    def of(cls, response: httpx.Response) -> Answer:
        headers = frozenset(item for item in response.headers.items() if item[0] not in VOLATILE)
        return cls(response.status_code, headers, TIMESTAMP.sub(b"", response.content))


class _Sampled(dict[str, str]):
    """A parameter that addresses no record takes any text."""

    def __missing__(self, name: str) -> str:
        return "x"


def _text(api: Api, url: str, params: Mapping[str, str]) -> str:
    """What a stream sends at once."""

    def parts() -> Iterator[str]:
        with api.client.stream(
            "GET", url, params=params, headers={"X-API-Key": api.key}, timeout=STREAM_SECONDS
        ) as response:
            yield from response.iter_text()

    received: list[str] = []
    with contextlib.suppress(httpx.ReadTimeout):  # a stream goes on for ever
        received.extend(parts())
    return "".join(received)
