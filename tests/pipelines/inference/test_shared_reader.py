"""The reader of a task: it keeps doubtful values back until the driver has judged them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from pipelines.contract.questions import Question, Values
from pipelines.coordination.client import Connection
from pipelines.coordination.messages import DriverMessage, Learned, Sample, TaskMessage
from pipelines.errors import AnswerPending
from pipelines.extract.document import Element
from pipelines.inference.records import Candidate, ProvenField, ProvenSelectors, Reading
from pipelines.inference.shared_reader import SharedReader
from pipelines.inference.templates import get_features
from tests.support.templates import HOST, GeneratedPage, make_pages

QUESTION = Question("price as price", ("price",))


class ScriptedConnection(Connection):
    """A connection whose messages to the task are those of the test."""

    def __init__(self) -> None:
        self.sent: list[TaskMessage] = []
        self.arriving: list[DriverMessage] = []

    def send(self, message: TaskMessage) -> None:
        self.sent.append(message)

    def receive(self, timeout: float = 0) -> list[DriverMessage]:
        arrived, self.arriving = self.arriving, []
        return arrived

    def list_doubtful(self) -> Sequence[tuple[int, int]]:
        """Return the number and the version of each sample with doubts."""
        return [(each.number, each.version) for each in self.sent if isinstance(each, Sample) and each.doubts]


def make_record(page: GeneratedPage, selector: str) -> ProvenSelectors:
    candidate = Candidate(reading=Reading(selector=selector), stability=50)
    return ProvenSelectors(
        host=HOST,
        template="t",
        features=get_features(parse(page).document),
        prompt=QUESTION.prompt,
        prompt_key=QUESTION.key,
        fields=(ProvenField(name="price", type="number", fill=1.0, candidates=(candidate,)),),
        proven_at=datetime.now(UTC),
    )


def parse(page: GeneratedPage) -> Element:
    return page.make_sample().element


def test_an_answer_about_older_selectors_accepts_no_value_of_newer_ones() -> None:
    page, other = make_pages("classes", 2)
    changed = GeneratedPage(page.url, page.html.replace(page.values["price"], ""), page.values)
    connection = ScriptedConnection()
    reader = SharedReader(connection)

    def learn(version: int, selector: str, answered: Sequence[int] = ()) -> None:
        known = make_record(page, selector)
        answer = Learned(HOST, QUESTION.key, "t", known.features, known.to_json(), "", {}, [*answered], version=version)
        connection.arriving.append(answer)
        reader.poll()

    def read(page: GeneratedPage) -> Values:
        return reader.read_values(QUESTION, parse(page))

    learn(0, ".price")
    with pytest.raises(AnswerPending):
        read(changed)
    learn(1, ".box .price")
    assert read(other).found["price"] is not None  # so version 1 is in use before the answer about version 0 arrives
    learn(1, ".box .price", answered=[1])
    with pytest.raises(AnswerPending):
        read(changed)
    assert connection.list_doubtful() == [(1, 0), (2, 1)]
    learn(1, ".box .price", answered=[2])
    assert (read(changed).found, read(changed).error) == ({"price": None}, None)
