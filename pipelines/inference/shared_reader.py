"""The reader of a task: the driver answers questions to which its pages have no value in their metadata."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pipelines.contract.questions import Found, Question, Values
from pipelines.coordination.client import Connection
from pipelines.coordination.messages import Learned, Readings, Sample, Statistics, Waiting
from pipelines.errors import AnswerPending
from pipelines.extract.document import Element
from pipelines.inference.drift import RunStatistics
from pipelines.inference.field_counts import Measure
from pipelines.inference.items import PageItems
from pipelines.inference.page_reader import ABSENT, Means, PageReader, get_host, says_absent
from pipelines.inference.reading import get_path
from pipelines.inference.records import ProvenSelectors
from pipelines.inference.templates import Templates, get_features

_MAX_OPEN = 48  # samples of one host and question that are not answered
_MAX_BODY = 4 * 2**20
_WAIT_SECONDS = 0.25  # between calls of `while_waiting`
_MOST_SEEN = 100_000  # places that are remembered

_Place = tuple[str, str, str, int]  # question, address, path, hash of the body


@dataclass(slots=True)
class _Known:
    """The means of one host and question by template."""

    means: dict[str, Means] = field(default_factory=dict[str, Means])
    features: dict[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    templates: Templates = field(default_factory=Templates)

    def add(self, template: str, features: tuple[int, ...], means: Means) -> None:
        self.means[template], self.features[template] = means, features
        self.templates = Templates(self.features)

    def find(self, features: tuple[int, ...]) -> Means | None:
        return self.means.get(self.templates.assign(features))


@dataclass(slots=True)
class _Watch:
    """The values of one version of selectors on a template, and the places whose doubtful values are right."""

    version: int = 0
    statistics: RunStatistics = field(default_factory=RunStatistics)
    accepted: set[_Place] = field(default_factory=set[_Place])
    doubted: dict[_Place, dict[str, Measure]] = field(default_factory=dict[_Place, dict[str, Measure]])
    seen: set[int] = field(default_factory=set[int])

    def observe(
        self, place: _Place, record: ProvenSelectors, element: Element, found: Mapping[str, Found | None]
    ) -> dict[str, Measure]:
        """Count the values of a place once, although it may be read again; return which of them are doubtful."""
        if place in self.doubted or hash(place) in self.seen:
            return self.doubted.get(place, {})
        if len(self.seen) >= _MOST_SEEN:
            self.seen.clear()
        self.seen.add(hash(place))
        if doubts := self.statistics.observe(record, element, found):
            self.doubted[place] = doubts
        return doubts


class SharedReader(PageReader):
    """Sends pages without an answer to the driver, which infers selectors once for all tasks. For one thread.

    `answers` counts the answers so far. `while_waiting` is called again and again while the task waits for other tasks:
    it must hold nothing that these need, like slots at a host.
    """

    while_waiting: Callable[[], object] | None = None

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._known: dict[tuple[str, str], _Known] = {}
        self._own: dict[_Place, Means] = {}
        self._numbers: dict[int, tuple[_Place, tuple[str, str], int | None]] = {}  # and the version that is in doubt
        self._open: Counter[tuple[str, str]] = Counter()
        self._sent: set[_Place] = set()
        self._watches: dict[tuple[str, str, str], _Watch] = {}  # by host, question and template
        self._served: Counter[str] = Counter()
        self._counted: set[int] = set()
        self._next = 0
        self.answers = 0
        connection.send(Sample())

    def find_record(self, question: Question, element: Element) -> ProvenSelectors | None:
        known = self._known.get((get_host(element), question.key))
        means = known.find(get_features(element.document)) if known else None
        return means.record if means else None

    def read_values(self, question: Question, element: Element) -> Values:
        values = super().read_values(question, element)
        methods = {each.method for each in values.found.values() if each is not None}
        means = next((each for each in ("model", "selector") if each in methods), "metadata" if methods else "none")
        if (place := hash(_locate(question, element))) not in self._counted:
            self._counted = self._counted if len(self._counted) < _MOST_SEEN else set()
            self._counted.add(place)
            self._served[means] += 1
        return values

    def check_values(
        self, question: Question, record: ProvenSelectors, element: Element, found: Mapping[str, Found | None]
    ) -> Values:
        """Return the values, unless the driver has to judge doubtful ones; raise AnswerPending."""
        if says_absent(element):
            return Values(found, ABSENT)
        asked, features = (get_host(element), question.key), get_features(element.document)
        known = self._known[asked]
        template = known.templates.assign(features)
        means, place = known.means[template], _locate(question, element)
        watch = self._watches.setdefault((*asked, template), _Watch())
        if watch.version != means.version:
            self._connection.send(Readings([_describe(*asked, template, watch)], dict(self._served)))
            watch = self._watches[*asked, template] = _Watch(means.version)
        if place in watch.accepted:
            own = self._own.get(place, Means()).values
            return Values({name: value or own.get(name) for name, value in found.items()})
        doubts = watch.observe(place, record, element, found)
        doubts = {name: why for name, why in doubts.items() if (name, why) not in means.usual}
        lost = [name for name in doubts if name in means.lost]
        if lost:
            kept = {name: None if name in lost else value for name, value in found.items()}
            return Values(kept, means.lost[lost[0]])
        if not doubts:
            return Values(found)
        if place not in self._sent and self._open[asked] < _MAX_OPEN:
            self._connection.send(Readings([_describe(*asked, template, watch)], dict(self._served)))
            self._send(question, element, features, place, asked, tuple(doubts.items()), means.version)
        raise AnswerPending

    def find_means(self, question: Question, element: Element) -> Means:
        asked, features = (get_host(element), question.key), get_features(element.document)
        known = self._known.get(asked)
        page = element.document.page
        place = _locate(question, element)
        means = known.find(features) if known else None
        if means is not None and means.record is not None:
            return means
        if place in self._own or means is not None:
            return self._own.get(place) or means or Means()
        if len(page.body) > _MAX_BODY:
            return Means(error="no means serves this: the page is too long for a language model")
        if place not in self._sent and self._open[asked] < _MAX_OPEN:
            self._send(question, element, features, place, asked)
        raise AnswerPending

    def poll(self) -> None:
        """Take the answers that have arrived."""
        for message in self._connection.receive():
            if isinstance(message, Learned):
                self._take(message)

    def hurry(self) -> None:
        """Ask the driver to answer the samples of this task without those of others."""
        self._report()
        self._connection.send(Waiting(urgent=True))

    def wait(self, urgent: bool = False) -> None:
        """Wait for the next answers; raise DriverGone."""
        before = self.answers
        self.poll()
        if self.answers == before:
            self._report()
            self._connection.send(Waiting(urgent))
        while self.answers == before:
            for message in self._connection.receive(_WAIT_SECONDS):
                if isinstance(message, Learned):
                    self._take(message)
            if not urgent and self.while_waiting:
                self.while_waiting()

    def finish(self) -> None:
        """Send the totals of the task, and close the connection once the driver has them."""
        self._report()
        self._connection.finish()

    def _report(self) -> None:
        statistics = [_describe(*key, watch) for key, watch in self._watches.items()]
        self._connection.send(Readings(statistics, dict(self._served)))

    def _send(
        self,
        question: Question,
        element: Element,
        features: tuple[int, ...],
        place: _Place,
        asked: tuple[str, str],
        doubts: tuple[tuple[str, str], ...] = (),
        version: int = 0,
    ) -> None:
        page = element.document.page
        self._next += 1
        self._numbers[self._next] = place, asked, version if doubts else None
        self._sent.add(place)
        self._open[asked] += 1
        sample = Sample(
            number=self._next,
            prompt=question.prompt,
            fields=question.fields,
            kind=question.kind,
            asked=question.asked,
            scope=question.scope,
            url=page.url,
            features=features,
            body=page.body,
            content_type=page.content_type,
            charset=page.charset,
            path=place[2],
            doubts=doubts,
            version=version,
        )
        self._connection.send(sample)

    def _take(self, message: Learned) -> None:
        self.answers += 1
        record = ProvenSelectors.from_json(message.record) if message.record else None
        if record or message.error:
            known = self._known.setdefault((message.host, message.question), _Known())
            usual = frozenset(message.usual)
            means = Means(record, error=message.error or None, version=message.version, lost=message.lost, usual=usual)
            known.add(message.template, message.features, means)
        for number in message.answered:
            place, asked, doubted = self._numbers.pop(number)
            self._open[asked] -= 1
            self._sent.discard(place)
            watch = self._watches.get((message.host, message.question, message.template))
            # an answer of another version has not judged the values of this one
            if watch and watch.version == message.version == doubted:
                watch.accepted.add(place)
            values = {name: Found(*value) for name, value in message.values.get(number, {}).items()}
            if values or not (record or message.error):
                paths, missing = message.items.get(number, ([], 0))
                self._own[place] = Means(None, values, PageItems(tuple(paths), missing), message.error or None)


def _locate(question: Question, element: Element) -> _Place:
    page = element.document.page
    return question.key, page.url, get_path(element.node), hash(page.body)


def _describe(host: str, question: str, template: str, watch: _Watch) -> Statistics:
    return Statistics(host, question, template, watch.version, watch.statistics.to_json())
