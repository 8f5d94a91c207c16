"""The driver's side of inference: one for each host, template and question, over the samples of all tasks."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from urllib.parse import urlsplit

from pipelines.coordination.messages import Learned, Member, Sample, Waiting
from pipelines.extract.document import Document, Element, HtmlElement
from pipelines.fetch import Page
from pipelines.inference.metadata import find_stated, read_metadata
from pipelines.inference.page_reader import NO_MODEL
from pipelines.inference.proving import MAX_CALLS, MAX_SAMPLES, Inference, infer
from pipelines.inference.pruning import prune_text
from pipelines.inference.questions import Answer, Question, make_data, make_naming_task
from pipelines.inference.questions import Sample as QuestionSample
from pipelines.inference.reading import Found
from pipelines.inference.records import ProvenSelectors
from pipelines.inference.store import SelectorStore
from pipelines.inference.templates import Templates
from pipelines.models import Budget, ModelClient, ModelFailed, Usage

_log = logging.getLogger(__name__)
_THREADS = 4
_MAX_NAMES = 20
_STEP = re.compile(r"([^/\[]+)\[(\d+)\]")

_Key = tuple[str, str, str]  # host, template, question


class FieldNames(Answer):
    """The names of the fields that a prompt asks for."""

    fields: list[str]


@dataclass(slots=True)
class _Host:
    """The templates of a host, and its proven selectors by template and question."""

    templates: Templates
    records: dict[tuple[str, str], ProvenSelectors]


@dataclass(slots=True)
class _Group:
    """The samples of one template and question; `learned` once they are answered."""

    question: Question
    host: str
    template: str
    features: tuple[int, ...]
    samples: list[tuple[Member, Sample]] = field(default_factory=list[tuple[Member, Sample]])
    is_running: bool = False


@dataclass(frozen=True, slots=True)
class _Result:
    """The result of an inference for the pages of its template."""

    record: ProvenSelectors | None = None
    error: str = ""
    values: Sequence[dict[str, Found]] = ()


class InferenceDesk:
    """Infers selectors when a template has samples enough, or when all tasks wait; no call blocks its thread.

    The driver alone has the model's key and the store, and all calls count for its budgets.
    """

    def __init__(self, store: SelectorStore | None, client: ModelClient | None) -> None:
        self._store = store
        self._client = client
        self._threads = ThreadPoolExecutor(_THREADS, "inference")
        self._members: dict[Member, Waiting | None] = {}
        self._hosts: dict[str, asyncio.Future[_Host]] = {}
        self._groups: dict[_Key, _Group] = {}
        self._results: dict[_Key, tuple[_Group, _Result]] = {}
        self._placing: set[asyncio.Task[None]] = set()

    @property
    def usage(self) -> Usage:
        """The cost of the run's calls."""
        return self._client.usage if self._client else Usage()

    def close(self) -> None:
        """End without further calls."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def take(self, member: Member, message: Sample | Waiting) -> None:
        """Take a sample, or that a task waits for its answers."""
        self._members[member] = message if isinstance(message, Waiting) else None
        if isinstance(message, Sample) and message.number:
            placing = asyncio.get_running_loop().create_task(self._place(member, message))
            self._placing.add(placing)
            placing.add_done_callback(self._end_placing)
        self._start_ready()

    def leave(self, member: Member) -> None:
        """Forget a task; the samples that it has sent still count."""
        self._members.pop(member, None)
        self._start_ready()

    def _end_placing(self, placing: asyncio.Task[None]) -> None:
        self._placing.discard(placing)
        if not placing.cancelled():
            placing.result()
            self._start_ready()

    async def _place(self, member: Member, sample: Sample) -> None:
        question = Question(sample.prompt, sample.fields, sample.kind, sample.asked, sample.scope)
        name = urlsplit(sample.url).hostname or ""
        if name not in self._hosts:
            self._hosts[name] = asyncio.get_running_loop().run_in_executor(self._threads, self._load_host, name)
        host = await self._hosts[name]
        template = host.templates.assign(sample.features)
        key = (name, template, question.key)
        group = _Group(question, name, template, host.templates.get_features(template))
        if (record := host.records.get((template, question.key))) is not None:
            self._results.setdefault(key, (group, _Result(record)))
        if key in self._results:
            known, result = self._results[key]
            self._answer(known, result, {member: [sample]}, {})
            return
        self._groups.setdefault(key, group).samples.append((member, sample))

    def _load_host(self, name: str) -> _Host:
        records = self._store.list_host(name) if self._store else []
        features = {each.template: each.features for each in records}
        return _Host(Templates(features), {(each.template, each.prompt_key): each for each in records})

    def _start_ready(self) -> None:
        """Begin the inferences that have samples enough, those that are urgent, and all when no more samples come."""
        all_wait = bool(self._members) and not self._placing and None not in self._members.values()
        urgent = {member for member, waiting in self._members.items() if waiting and waiting.urgent}
        for key, group in self._groups.items():
            has_enough = len(group.samples) >= MAX_SAMPLES
            if all_wait or has_enough or (urgent and not urgent.isdisjoint(member for member, _ in group.samples)):
                self._start(key, group)

    def _start(self, key: _Key, group: _Group) -> None:
        if group.is_running:
            return
        group.is_running = True
        group.samples.sort(key=lambda each: (each[1].url, each[1].path))  # the tasks' order is not the same in each run
        samples = [sample for _, sample in group.samples[:MAX_SAMPLES]]
        running = asyncio.get_running_loop().run_in_executor(self._threads, self._infer, group, samples)
        running.add_done_callback(partial(self._finish, key))

    def _finish(self, key: _Key, done: asyncio.Future[_Result]) -> None:
        if done.cancelled():
            return
        group, result = self._groups.pop(key), done.result()
        by_member: dict[Member, list[Sample]] = {}
        values: dict[tuple[Member, int], dict[str, Found]] = {}
        for at, (member, sample) in enumerate(group.samples):
            by_member.setdefault(member, []).append(sample)
            if at < len(result.values):
                values[member, sample.number] = result.values[at]
        if result.record or result.error:
            self._results[key] = group, result
        self._answer(group, result, by_member, values)

    def _answer(
        self,
        group: _Group,
        result: _Result,
        samples: dict[Member, list[Sample]],
        values: dict[tuple[Member, int], dict[str, Found]],
    ) -> None:
        for member, own in samples.items():
            if member not in self._members:
                continue
            self._members[member] = None
            shown = {
                each.number: {
                    name: (found.value, found.text, found.path, found.url, found.method)
                    for name, found in values.get((member, each.number), {}).items()
                }
                for each in own
            }
            member.send(
                Learned(
                    host=group.host,
                    question=group.question.key,
                    template=group.template,
                    features=group.features,
                    record=result.record.to_json() if result.record else "",
                    error=result.error,
                    values=shown,
                    answered=[each.number for each in own],
                )
            )

    def _infer(self, group: _Group, samples: Sequence[Sample]) -> _Result:
        """Infer in a thread; every failure becomes the error of the rows."""
        if self._client is None:
            return _Result(error=NO_MODEL)
        try:
            return self._infer_with(self._client, group, samples)
        except ModelFailed as failed:
            return _Result(error=f"no means serves this: {failed}")
        except Exception as error:
            _log.exception("selectors for %s could not be inferred", group.host)
            return _Result(error=f"selectors could not be inferred: {type(error).__name__}")

    def _infer_with(self, client: ModelClient, group: _Group, samples: Sequence[Sample]) -> _Result:
        calls = Budget("one template", MAX_CALLS)
        elements = [_parse_sample(each) for each in samples]
        question = group.question
        if question.kind == "values" and not question.fields:
            question = replace(question, fields=_name_fields(client, calls, question, elements))
        pages = [
            QuestionSample(sample.url, element, _read_witness(question, element))
            for sample, element in zip(samples, elements, strict=True)
        ]
        inference = infer(question, group.host, group.template, group.features, pages, client, calls=calls)
        return self._keep(group, inference)

    def _keep(self, group: _Group, inference: Inference) -> _Result:
        """Store proven selectors, and name the fields that no page proves."""
        if inference.failure:
            return _Result(error=f"no means serves this: {inference.failure}")
        if inference.record is None:
            return _Result(values=[dict(each) for each in inference.values])
        record = inference.record.model_copy(update={"prompt_key": group.question.key})
        if record.unproven:
            _log.warning(
                "no page of %s proves %s, so they are null; `spindle selectors delete` lets the next run ask again",
                group.host,
                ", ".join(record.unproven),
            )
        if self._store:
            self._store.put(record)
        return _Result(record)


def _name_fields(
    client: ModelClient, calls: Budget, question: Question, elements: Sequence[Element]
) -> tuple[str, ...]:
    data = make_data([{"text": prune_text(element)} for element in elements[:1]])
    answer = client.ask(make_naming_task(question), data, FieldNames, (calls,))
    names = (re.sub(r"\W+", "_", name).strip("_").lower()[:40] for name in answer.fields[:_MAX_NAMES])
    return tuple(dict.fromkeys(name for name in names if name)) or ("value",)


def _read_witness(question: Question, element: Element) -> dict[str, str]:
    metadata = read_metadata(element)
    asked = question.asked or question.fields
    stated = {name: find_stated(metadata, (words, name)) for name, words in zip(question.fields, asked, strict=True)}
    return {name: found.value for name, found in stated.items() if found is not None}


def _parse_sample(sample: Sample) -> Element:
    page = Page(sample.url, sample.url, 200, None, sample.content_type, sample.charset, sample.body, datetime.now(UTC))
    root = Document(page).root
    return _find_by_path(root, sample.path) if isinstance(root, HtmlElement) and sample.scope else root


def _find_by_path(root: HtmlElement, path: str) -> HtmlElement:
    """Return the element that `get_path` has given the path of."""
    node = root.node
    for tag, position in _STEP.findall(path)[1:]:
        child, left = node.first_child, int(position)
        while child is not None:
            left -= child.tag == tag
            if left == 0:
                break
            child = child.next
        if child is None:
            return root
        node = child
    return root.at(node)
