"""The driver's side of inference: one for every host, template and question, over the samples of all tasks."""

from __future__ import annotations

import asyncio
import logging
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import cast
from urllib.parse import urlsplit

from pipelines.contract.questions import Question
from pipelines.coordination.messages import InferenceMessage, Member, Readings, Sample, Waiting
from pipelines.extract.document import Element
from pipelines.inference.drift import Drift, add_baseline, find_doubted, find_drift
from pipelines.inference.expectations import MIN_BASELINE
from pipelines.inference.field_counts import Measure
from pipelines.inference.groups import (
    PageAnswer,
    Result,
    SampleGroup,
    locate_sample,
    make_learned,
    make_samples,
    parse_sample,
)
from pipelines.inference.page_reader import NO_MODEL
from pipelines.inference.proving import MAX_SAMPLES, Inference, infer
from pipelines.inference.pruning import prune_text
from pipelines.inference.questions import ModelAnswer, make_data, make_naming_task
from pipelines.inference.questions import Sample as QuestionSample
from pipelines.inference.records import ProvenSelectors
from pipelines.inference.repairs import MAX_REPAIRS, DoubtfulPage, DriftReport, repair_record
from pipelines.inference.step_recorder import StepRecorder, count_all
from pipelines.inference.store import SelectorStore
from pipelines.inference.tallies import Tallies
from pipelines.inference.templates import Templates
from pipelines.models.budget import Budget, ModelFailed, Usage
from pipelines.models.client import HostLedger, ModelClient

_log = logging.getLogger(__name__)
_THREADS = 4
_MAX_NAMES = 20
_MANY_ACCEPTED = 10  # doubtful values of a field, which are usual then

_Key = tuple[str, str, str]  # host, template, question
_Place = tuple[Member, int]  # a task, and the number of its sample


class FieldNames(ModelAnswer):
    """The names of the fields that a prompt asks for."""

    fields: list[str]


@dataclass(slots=True)
class _Host:
    """The templates of a host, and its proven selectors by template and question."""

    templates: Templates
    records: dict[tuple[str, str], ProvenSelectors]


class InferenceServer:
    """Infers selectors when a template has samples enough, or when all tasks wait; no call blocks its thread.

    Pages with values that are not as those at proving time are doubtful samples. They are repaired once most pages
    are so, and accepted as they are where all tasks wait and most pages are not.

    Only the driver has the model's key and the store, and all calls count for its budgets.
    """

    def __init__(self, store: SelectorStore | None, ledger: HostLedger | None) -> None:
        self._store = store
        self._ledger = ledger
        self._threads = ThreadPoolExecutor(_THREADS, "inference")
        self._members: dict[Member, Waiting | None] = {}
        self._hosts: dict[str, asyncio.Future[_Host]] = {}
        self._groups: dict[_Key, SampleGroup] = {}
        self._results: dict[_Key, tuple[SampleGroup, Result]] = {}
        self._placing: set[asyncio.Task[None]] = set()
        self._doubtful: dict[_Key, list[tuple[Member, Sample]]] = {}
        self._repairing: dict[_Key, int] = {}  # number of the samples that a repair has taken
        self._accepted: Counter[tuple[_Key, tuple[str, str]]] = Counter()
        self._asked: set[tuple[_Key, str]] = set()  # fields whose uncertain doubts were looked at
        self.tallies = Tallies()
        self._steps = StepRecorder(store, ledger, self._threads)
        self._reports: list[DriftReport] = []

    @property
    def usage(self) -> Usage:
        """The cost of the run's calls."""
        return self._ledger.client.usage if self._ledger else Usage()

    def list_hosts(self) -> Mapping[str, Usage]:
        """Return the cost of the calls by host."""
        return self._ledger.list_usage() if self._ledger else {}

    def count_served(self) -> Mapping[str, int]:
        """Return the number of questions and prompts on pages by the means that served them."""
        return count_all((self.tallies.count_served(), self._steps.served))

    def count_pages(self) -> Mapping[str, int]:
        """Return the number of pages that a proven record has served, by its id."""
        return count_all((self.tallies.count_pages(), self._steps.replays))

    def close(self) -> None:
        """End without further calls."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def take(self, member: Member, message: InferenceMessage) -> None:
        """Take a sample, totals, that a task waits for its answers, or a message about steps in the browser."""
        if not isinstance(message, Sample | Readings | Waiting):
            self._steps.take(member, message)
            return
        if isinstance(message, Readings):
            self.tallies.take(member.name, message)
            return
        self._members[member] = message if isinstance(message, Waiting) else None
        if isinstance(message, Sample) and message.number:
            placing = asyncio.get_running_loop().create_task(self._place(member, message))
            self._placing.add(placing)
            placing.add_done_callback(self._end_placing)
        self._start_ready()

    def leave(self, member: Member) -> None:
        """Forget a task; the samples that it has sent still count."""
        self._steps.leave(member)
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
        group = SampleGroup(question, name, template, host.templates.get_features(template))
        if (record := host.records.get((template, question.key))) is not None:
            self._results.setdefault(key, (group, Result(record)))
        if key in self._results:
            known, result = self._results[key]
            if sample.doubts and sample.version == result.version and result.record is not None:
                self._doubtful.setdefault(key, []).append((member, sample))
            else:
                self._answer(known, result, {member: [sample]})
            return
        group = self._groups.setdefault(key, group)
        page = locate_sample(sample)
        if (answer := next((answer for read, answer in group.read if locate_sample(read) == page), None)) is not None:
            self._answer(group, Result(), {member: [sample]}, {(member, sample.number): answer})
        else:
            group.samples.append((member, sample))

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
            if not group.samples or group.taken:
                continue
            if all_wait or has_enough or (urgent and not urgent.isdisjoint(member for member, _ in group.samples)):
                self._start(key, group)
        for key, doubtful in [*self._doubtful.items()]:
            self._judge(key, all_wait or not urgent.isdisjoint(member for member, _ in doubtful))

    def _judge(self, key: _Key, is_final: bool) -> None:
        """Repair the selectors of doubtful samples, or accept these; wait for more where neither is certain."""
        group, result = self._results[key]
        if key in self._repairing or result.record is None:
            return
        statistics = self.tallies.merge(key, result.version)
        doubted = find_doubted(result.record, statistics, is_final)
        drifted = [
            each
            for each in doubted
            if (each.field, each.measure) not in result.confirmed
            and each.field not in result.lost
            and (each.is_certain or (key, each.field) not in self._asked)
        ]
        if drifted:
            self._asked.update((key, each.field) for each in drifted)
            samples = [sample for _, sample in self._doubtful[key]]
            self._repairing[key] = len(samples)
            repair = partial(self._repair, group, result, result.record, drifted, samples)
            running = asyncio.get_running_loop().run_in_executor(self._threads, repair)
            running.add_done_callback(partial(self._finish_repair, key))
        elif is_final:
            self._accept(key, group, result)

    def _accept(self, key: _Key, group: SampleGroup, result: Result) -> None:
        doubtful = self._doubtful.pop(key)
        self._accepted.update((key, doubt) for _, sample in doubtful for doubt in sample.doubts)
        usual = {doubt for (of, doubt), count in self._accepted.items() if of == key and count >= _MANY_ACCEPTED}
        result = replace(result, usual=result.usual | usual)
        self._results[key] = group, result
        self._answer(group, result, _group_samples(doubtful))

    def _repair(
        self,
        group: SampleGroup,
        result: Result,
        record: ProvenSelectors,
        drifted: Sequence[Drift],
        samples: Sequence[Sample],
    ) -> tuple[Result, Sequence[DriftReport]]:
        """Repair in a thread; a failure loses the fields."""
        pages = [
            DoubtfulPage(each, {name: cast("Measure", why) for name, why in sample.doubts})
            for each, sample in zip(make_samples(group.question, samples), samples, strict=True)
        ]
        client, repairs = self._ledger and self._ledger.get_client(group.host), result.version
        can_infer = client is not None and repairs < MAX_REPAIRS and not record.pinned

        def infer_anew(found: Sequence[QuestionSample]) -> Inference:
            assert client is not None  # noqa: S101 - else the function is not passed on
            question = replace(group.question, fields=tuple(each.name for each in record.fields))
            question = question if question.kind == "values" else group.question
            return infer(question, group.host, group.template, group.features, found, client)

        tried = record if repairs < MAX_REPAIRS else record.model_copy(update={"pinned": True})
        done = repair_record(tried, drifted, pages, infer_anew if can_infer else None)
        repaired = done.record.model_copy(update={"pinned": record.pinned})
        if repaired != record and self._store:
            self._store.put(repaired)
        read = [PageAnswer(each) for each in done.inference.values] if done.inference else ()
        lost = {**result.lost, **done.lost}
        # a model that has read the pages leaves the selectors as they are
        is_new = repaired != record or bool(done.lost)
        version = result.version + is_new
        reports = [replace(each, version=version, advice=self._advise(record)) for each in done.reports]
        for report in reports:
            _log.warning("%s", report)
        confirmed = {(each.field, each.measure) for each in drifted if each.field in done.confirmed}
        confirmed |= result.confirmed
        return replace(result, record=repaired, pages=read, version=version, lost=lost, confirmed=confirmed), reports

    def _finish_repair(self, key: _Key, done: asyncio.Future[tuple[Result, Sequence[DriftReport]]]) -> None:
        if done.cancelled():
            return
        taken = self._repairing.pop(key)
        group, before = self._results[key]
        try:
            result, reports = done.result()
        except Exception as error:
            _log.exception("selectors for %s could not be repaired", group.host)
            sentence = f"selectors could not be repaired: {type(error).__name__}"
            result, reports = Result(error=sentence, version=before.version + 1), []
        self._reports += reports
        doubtful = self._doubtful.pop(key)
        if result.version == before.version and (later := doubtful[taken:]):
            self._doubtful[key], doubtful = later, doubtful[:taken]
        answers = {
            (member, sample.number): answer for (member, sample), answer in zip(doubtful, result.pages, strict=False)
        }
        result = replace(result, pages=())
        self._results[key] = group, result
        self._answer(group, result, _group_samples(doubtful), answers)
        self._start_ready()

    def check_drift(self) -> Sequence[DriftReport]:
        """Return all drift of the run, at its end: also of fields whose values are doubtful only in their sum."""
        for key, (_, result) in [*self._results.items()]:
            if result.record is None:
                continue
            self._reports = [self._count_lost(each, key, result.record) for each in self._reports]
            for drift in find_drift(result.record, self.tallies.merge(key, result.version)):
                if drift.field not in result.lost and (drift.field, drift.measure) not in result.confirmed:
                    advice = self._advise(result.record)
                    self._reports.append(DriftReport(result.record, drift, drift.now.doubted, "none", advice=advice))
        return self.list_drift()

    def keep_baselines(self) -> None:
        """Store the counts of a complete run for the fields without drift, which later runs are compared with."""
        drifted = {(each.record.key, each.drift.field) for each in self._reports}
        for key, (_, result) in [*self._results.items()]:
            if result.record is None or result.version or self._store is None:
                continue
            total = self.tallies.merge(key, 0).total
            fields = tuple(
                add_baseline(each, counts)
                if (counts := total.get(each.name)) is not None
                and counts.pages >= max(MIN_BASELINE, each.baseline.pages / 2 if each.baseline else 0)
                and (result.record.key, each.name) not in drifted
                else each
                for each in result.record.fields
            )
            if fields != result.record.fields:
                self._store.put_figures(result.record.model_copy(update={"fields": fields}))

    def _count_lost(self, report: DriftReport, key: _Key, record: ProvenSelectors) -> DriftReport:
        """Return the report of a lost field with all its pages: those of the repair are read again after it."""
        if report.step != "nulls" or report.record.key != record.key:
            return report
        pages = self.tallies.count_doubted(key, report.drift.field, report.version)
        return replace(report, pages=max(report.pages, pages))

    def _advise(self, record: ProvenSelectors) -> str:
        return self._store.advise_deletion(record) if self._store else ""

    def list_drift(self) -> Sequence[DriftReport]:
        """Return the drift that was found so far: of every field the last report, or the last one that left doubt."""
        found: dict[tuple[str, str], DriftReport] = {}
        for report in sorted(self._reports, key=lambda each: not each.is_repaired):
            found[report.record.key, report.drift.field] = report
        return tuple(found.values())

    def _start(self, key: _Key, group: SampleGroup) -> None:
        group.samples.sort(key=lambda each: (each[1].url, each[1].path))  # the order of tasks differs between runs
        group.taken = min(len(group.samples), MAX_SAMPLES - len(group.read))
        samples = [sample for sample, _ in group.read] + [sample for _, sample in group.samples[: group.taken]]
        running = asyncio.get_running_loop().run_in_executor(self._threads, self._infer, group, samples)
        running.add_done_callback(partial(self._finish, key))

    def _finish(self, key: _Key, done: asyncio.Future[Result]) -> None:
        if done.cancelled():
            return
        group, result = self._groups[key], done.result()
        if result.record or result.error:
            del self._groups[key]
            self._results[key] = group, result
            self._answer(group, result, _group_samples(group.samples))
            return
        # without a proof, pages have answers of their own, and the next inference reads the newer samples
        taken, group.samples, group.taken = group.samples[: group.taken], group.samples[group.taken :], 0
        found = [*zip(taken, result.pages[len(group.read) :], strict=True)]
        group.read += [(sample, answer) for (_, sample), answer in found]
        answers = {(member, sample.number): answer for (member, sample), answer in found}
        self._answer(group, result, _group_samples(taken), answers)
        self._start_ready()

    def _answer(
        self,
        group: SampleGroup,
        result: Result,
        samples: dict[Member, list[Sample]],
        answers: Mapping[_Place, PageAnswer] | None = None,
    ) -> None:
        for member, own in samples.items():
            if member not in self._members:
                continue
            self._members[member] = None
            found = {each.number: (answers or {}).get((member, each.number), PageAnswer({})) for each in own}
            member.send(make_learned(group, result, found))

    def _infer(self, group: SampleGroup, samples: Sequence[Sample]) -> Result:
        """Infer in a thread; every failure becomes the error of the rows."""
        if self._ledger is None:
            return Result(error=NO_MODEL)
        try:
            return self._infer_with(self._ledger.get_client(group.host), group, samples)
        except ModelFailed as failed:
            return Result(error=f"no means serves this: {failed}")
        except Exception as error:
            _log.exception("selectors for %s could not be inferred", group.host)
            return Result(error=f"selectors could not be inferred: {type(error).__name__}")

    def _infer_with(self, client: ModelClient, group: SampleGroup, samples: Sequence[Sample]) -> Result:
        question = group.question
        if question.kind == "values" and not question.fields:
            group.fields = group.fields or _name_fields(client, group.calls, question, parse_sample(samples[0]))
            question = replace(question, fields=group.fields)
        pages = make_samples(question, samples)
        inference = infer(question, group.host, group.template, group.features, pages, client, calls=group.calls)
        return self._keep(group, inference)

    def _keep(self, group: SampleGroup, inference: Inference) -> Result:
        """Store proven selectors, and name the fields that no page proves."""
        if inference.failure:
            return Result(error=f"no means serves this: {inference.failure}")
        if inference.record is None:
            return Result(pages=[*map(PageAnswer, inference.values, inference.items)])
        record = inference.record.model_copy(update={"prompt_key": group.question.key})
        if record.unproven:
            sentence = f"no page of {group.host} proves {', '.join(record.unproven)}, so they are null"
            _log.warning("%s", "; ".join(filter(None, (sentence, self._advise(record)))))
        if self._store:
            self._store.put(record)
        return Result(record)


def _group_samples(samples: Iterable[tuple[Member, Sample]]) -> dict[Member, list[Sample]]:
    grouped: dict[Member, list[Sample]] = {}
    for member, sample in samples:
        grouped.setdefault(member, []).append(sample)
    return grouped


def _name_fields(client: ModelClient, calls: Budget, question: Question, element: Element) -> tuple[str, ...]:
    data = make_data([{"text": prune_text(element)}])
    answer = client.ask(make_naming_task(question), data, FieldNames, (calls,))
    names = (re.sub(r"\W+", "_", name).strip("_").lower()[:40] for name in answer.fields[:_MAX_NAMES])
    return tuple(dict.fromkeys(name for name in names if name)) or ("value",)
