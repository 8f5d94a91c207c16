"""The server of a run's inferences: every sample of every task gets an answer of its own."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from threading import Event

from msgspec.structs import replace

from pipelines.contract.questions import Question
from pipelines.coordination.messages import DriverMessage, Learned, Readings, Sample, Statistics, Waiting
from pipelines.inference.drift import RunStatistics
from pipelines.inference.proving import infer
from pipelines.inference.reading import read_values
from pipelines.inference.records import ProvenSelectors
from pipelines.inference.server import InferenceServer
from pipelines.inference.store import SelectorStore
from pipelines.inference.templates import get_features
from pipelines.models.client import HostLedger, ModelClient
from pipelines.models.options import ModelOptions
from tests.support.models import Json, ModelServer, answer_truth, serve_model
from tests.support.pages import document
from tests.support.templates import HOST, GeneratedPage, get_truth, make_pages


@dataclass(eq=False)
class RecordingTask:
    """A task that keeps what it is sent."""

    name: str
    messages: list[DriverMessage] = field(default_factory=list[DriverMessage])
    arrived: asyncio.Event = field(default_factory=asyncio.Event)

    def send(self, message: DriverMessage) -> None:
        self.messages.append(message)
        self.arrived.set()

    def list_learned(self) -> list[Learned]:
        return [each for each in self.messages if isinstance(each, Learned)]


def make_sample(number: int, page: GeneratedPage) -> Sample:
    element = page.make_sample().element
    features = get_features(element.document)
    return Sample(number, "title", ("title",), "values", url=page.url, features=features, body=page.html.encode())


async def wait_for(task: RecordingTask, count: int) -> None:
    async with asyncio.timeout(30):
        while len(task.list_learned()) < count:
            task.arrived.clear()
            await task.arrived.wait()


def test_a_sample_that_comes_during_an_inference_is_read_next() -> None:
    pages = make_pages("classes", 3, 10)
    asked, proceed = Event(), Event()
    answer_page = answer_truth(get_truth(*pages))

    def answer_late(task: str, data: Json, schema: Json) -> object:
        asked.set()
        assert proceed.wait(30)
        return answer_page(task, data, schema)

    async def run(inference: InferenceServer) -> tuple[RecordingTask, RecordingTask]:
        first, second = RecordingTask("first"), RecordingTask("second")
        inference.take(first, make_sample(1, pages[0]))
        inference.take(first, Waiting())
        await asyncio.to_thread(asked.wait, 30)
        inference.take(second, make_sample(7, pages[1]))
        inference.take(second, Waiting())
        await asyncio.sleep(0)
        proceed.set()
        await wait_for(first, 1)
        inference.leave(first)
        await wait_for(second, 1)
        inference.take(second, make_sample(8, pages[2]))
        await wait_for(second, 2)
        return first, second

    with serve_model() as server:
        server.rule = answer_late
        inference = InferenceServer(
            None, HostLedger(ModelClient(server.make_model(), (), lambda _: None), ModelOptions())
        )
        first, second = asyncio.run(run(inference))
        inference.close()
        assert len(server.requests) <= 5
    (alone,) = first.list_learned()
    assert (alone.answered, alone.values[1]["title"][0], alone.record) == ([1], pages[0].values["title"], "")
    proven, known = second.list_learned()
    assert (proven.answered, known.answered) == ([7], [8])
    assert proven.record == known.record != ""


PRICES = Question("title and price", ("title", "price"))


def prove(server: ModelServer) -> ProvenSelectors:
    samples = [page.make_sample() for page in make_pages("classes", 6)]
    features = get_features(samples[0].element.document)
    record = infer(PRICES, HOST, "classes", features, samples, ModelClient(server.make_model())).record
    assert record is not None
    return record


def test_a_field_that_is_repaired_twice_is_reported_once() -> None:
    pages = make_pages("classes", 9, 20)

    def send(inference: InferenceServer, task: RecordingTask, part: slice, statistics: RunStatistics) -> None:
        for number, page in [*enumerate(pages)][part]:
            html = page.html.replace(str(page.values["price"]), "")
            element = document(html, page.url).root
            doubts = statistics.observe(record, element, read_values(record, element))
            told = [Statistics(HOST, PRICES.key, record.template, 0, statistics.to_json())]
            inference.take(task, Readings(told))
            features, why = get_features(element.document), tuple(doubts.items())
            asked = Sample(number + 1, PRICES.prompt, PRICES.fields, url=page.url, features=features, doubts=why)
            inference.take(task, replace(asked, body=html.encode()))
        inference.take(task, Waiting())

    async def run(inference: InferenceServer) -> None:
        task, statistics = RecordingTask("only"), RunStatistics()
        send(inference, task, slice(1), statistics)
        await wait_for(task, 1)
        send(inference, task, slice(1, None), statistics)
        await wait_for(task, 2)

    with serve_model() as server:
        server.rule = answer_truth(get_truth(*make_pages("classes", 6), *pages))
        record = prove(server)
        ledger = HostLedger(ModelClient(server.make_model(), (), lambda _: None), ModelOptions())
        inference = InferenceServer(SelectorStore(None, [record]), ledger)
        asyncio.run(run(inference))
        inference.close()
    (report,) = inference.check_drift()
    assert (report.drift.field, report.step, report.is_repaired) == ("price", "nulls", False)
