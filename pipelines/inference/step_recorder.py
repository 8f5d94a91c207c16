"""The driver's side of prompts in the browser: steps are recorded once for every host, template and prompt."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from urllib.parse import urlsplit

from pydantic import TypeAdapter

from pipelines.coordination.messages import Member, NextStep, Steps, StepsDone, StepsWanted, StepWanted
from pipelines.extract.document import Document, Element
from pipelines.fetch import Page
from pipelines.inference.records import ProvenSelectors, RecordedStep, RecordedUsage
from pipelines.inference.repairs import MAX_REPAIRS
from pipelines.inference.steps import (
    MAX_STEPS,
    StepAnswer,
    StepInvalid,
    make_step_data,
    make_step_task,
    make_steps_key,
    read_step,
)
from pipelines.inference.store import SelectorStore
from pipelines.inference.templates import Templates, get_features
from pipelines.models.budget import Budget, ModelFailed
from pipelines.models.client import HostLedger

_log = logging.getLogger(__name__)
_STEPS = TypeAdapter(tuple[RecordedStep, ...])
_MOST_FAILURES = 2  # recordings of one template that fail: then its other pages are not tried
_MANY_EMPTY = 3  # pages on which nothing had to be done: then this is so for all pages of the template
_NO_MODEL = (
    "no steps are recorded for the prompt on pages of this kind, and there is no model; "
    "add a credential of TOGETHERAI, OPENAI or ANTHROPIC, or use click, type and the other actions"
)
_NOT_DONE = f"the prompt is not done after {MAX_STEPS} calls of the model; ask for less, or use click and type"
_UNFIT = "the recorded steps do not fit this page"


@dataclass(slots=True, eq=False)
class _Template:
    """The steps of one prompt on one template; `recorder` records them now, and `waiting` visits wait for them."""

    host: str
    name: str
    features: tuple[int, ...]
    prompt: str
    record: ProvenSelectors | None = None
    version: int = 0
    failures: int = 0
    empty: int = 0
    error: str = ""
    recorder: Member | None = None
    waiting: deque[tuple[Member, StepsWanted]] = field(default_factory=deque[tuple[Member, StepsWanted]])


@dataclass(slots=True)
class _Recording:
    """A visit that records: the calls for its page, and its steps in words."""

    template: _Template
    url: str
    budget: Budget
    performed: list[str] = field(default_factory=list[str])


class StepRecorder:
    """Answers visits with recorded steps, or lets one of a template record them, step by step, while others wait.

    Calls of the model run in `threads`. Steps that do not fit a page are recorded again, at most twice in a run.
    """

    def __init__(self, store: SelectorStore | None, ledger: HostLedger | None, threads: Executor) -> None:
        self._store = store
        self._ledger = ledger
        self._threads = threads
        self._hosts: dict[str, asyncio.Future[tuple[Templates, list[ProvenSelectors]]]] = {}
        self._templates: dict[tuple[str, str, str], _Template] = {}
        self._recordings: dict[Member, _Recording] = {}
        self._members: set[Member] = set()
        self._working: set[asyncio.Task[None]] = set()
        self.replays: Counter[str] = Counter()
        self.served: Counter[str] = Counter()

    def take(self, member: Member, message: StepsWanted | StepWanted | StepsDone) -> None:
        """Answer a visit, later where that takes long."""
        match message:
            case StepsWanted():
                self._members.add(member)
                work = self._find(member, message)
            case StepWanted():
                work = self._choose(member, message)
            case StepsDone():
                work = self._end(member, message)
        task = asyncio.get_running_loop().create_task(work)
        self._working.add(task)
        task.add_done_callback(self._working.discard)

    def leave(self, member: Member) -> None:
        """Forget a visit; if it was recording, another one of the template goes on."""
        if member not in self._members:
            return
        self._members.remove(member)
        for template in self._templates.values():
            template.waiting = deque(each for each in template.waiting if each[0] is not member)
        if recording := self._recordings.pop(member, None):
            self._note_failure(recording.template, "the page that recorded the steps was lost")
            self._answer_waiting(recording.template)

    async def _find(self, member: Member, wanted: StepsWanted) -> None:
        loop, host = asyncio.get_running_loop(), urlsplit(wanted.url).hostname or ""
        if host not in self._hosts:
            self._hosts[host] = loop.run_in_executor(self._threads, self._load_host, host)
        features = await loop.run_in_executor(self._threads, _read_features, wanted)
        templates, records = await self._hosts[host]
        name, prompt_key = templates.assign(features), make_steps_key(wanted.prompt)
        template = self._templates.get((host, name, prompt_key))
        if template is None:
            found = (each for each in records if (each.template, each.prompt_key) == (name, prompt_key))
            known = templates.get_features(name)
            template = _Template(host, name, known, wanted.prompt, record=next(found, None))
            self._templates[host, name, prompt_key] = template
        if member in self._members:
            template.waiting.append((member, wanted))
        self._answer_waiting(template)

    def _load_host(self, host: str) -> tuple[Templates, list[ProvenSelectors]]:
        records = self._store.list_host(host) if self._store else []
        return Templates({each.template: each.features for each in records}), records

    def _answer_waiting(self, template: _Template) -> None:
        """Answer the visits that wait, until one of them has to record steps."""
        while template.waiting and template.recorder is None:
            member, wanted = template.waiting.popleft()
            answer = self._decide(template, wanted)
            if answer.is_wanted:
                template.recorder = member
                self._recordings[member] = _Recording(template, wanted.url, Budget("the steps of a page", MAX_STEPS))
            elif answer.error:
                self.served["none"] += 1
            elif template.record is not None:
                self.replays[template.record.key] += 1
                self.served["selector"] += 1
            member.send(answer)

    def _decide(self, template: _Template, wanted: StepsWanted) -> Steps:
        record, is_failed = template.record, wanted.failed == template.version
        if record is not None and not is_failed:
            return Steps(json.dumps([each.model_dump() for each in record.steps]), template.version)
        if record is not None and (self._ledger is None or record.pinned or template.version >= MAX_REPAIRS):
            advice = self._store.advise_deletion(record) if self._store else ""
            return Steps(error="; ".join(filter(None, (_UNFIT, advice))))
        if self._ledger is None:
            return Steps(error=_NO_MODEL)
        return Steps(error=template.error) if template.error else Steps(is_wanted=True)

    async def _choose(self, member: Member, wanted: StepWanted) -> None:
        if (recording := self._recordings.get(member)) is None:
            return
        loop = asyncio.get_running_loop()
        if wanted.failed:
            recording.performed[-1] += ": this was not possible"
        try:
            answer = await loop.run_in_executor(self._threads, self._ask, recording, wanted)
        except ModelFailed as failed:
            is_long = recording.budget.spent.calls >= MAX_STEPS
            answer = NextStep(error=_NOT_DONE if is_long else f"no means serves this: {failed}")
        except Exception as error:
            _log.exception("steps for %s could not be chosen", recording.template.host)
            answer = NextStep(error=f"steps could not be chosen: {type(error).__name__}")
        member.send(answer)

    def _ask(self, recording: _Recording, wanted: StepWanted) -> NextStep:
        """Ask the model until its step is possible; raise ModelFailed."""
        assert self._ledger is not None  # noqa: S101 - else nothing is recorded
        client = self._ledger.get_client(recording.template.host)
        prompt, page = recording.template.prompt, _parse(recording.url, wanted.body)
        while True:
            data = make_step_data(page, wanted.controls, recording.performed)
            answer = client.ask(make_step_task(prompt), data, StepAnswer, (recording.budget,))
            said = f"{answer.step} {answer.element or ''} {answer.text or ''}".strip()
            try:
                step = read_step(answer, prompt, wanted.controls, page)
            except StepInvalid as invalid:
                recording.performed.append(f"{said}: not performed, for {invalid}")
                continue
            control = wanted.controls[step.control - 1].text if step.control else ""
            recording.performed.append(f"{answer.step} {control} {step.text}".strip())
            return step

    async def _end(self, member: Member, done: StepsDone) -> None:
        recording = self._recordings.get(member)
        if recording is None:
            return
        template = recording.template
        self.served["none" if done.error else "model"] += 1
        if done.error:
            self._note_failure(template, done.error)
        else:
            await self._keep(recording, _STEPS.validate_json(done.steps))
        if self._recordings.pop(member, None):
            template.recorder = None
            member.send(Steps(version=template.version))
            self._answer_waiting(template)

    async def _keep(self, recording: _Recording, steps: tuple[RecordedStep, ...]) -> None:
        """Store the steps; a page on which nothing had to be done says little about the others."""
        template = recording.template
        template.empty += not steps
        if not steps and (template.record is not None or template.empty < _MANY_EMPTY):
            template.version += template.record is not None
            return
        spent = recording.budget.spent
        record = ProvenSelectors(
            host=template.host,
            template=template.name,
            features=template.features,
            prompt=template.prompt,
            prompt_key=make_steps_key(template.prompt),
            kind="steps",
            steps=steps,
            sample_urls=(recording.url,),
            model=self._ledger.client.model.name if self._ledger else "",
            usage=RecordedUsage(
                calls=spent.calls, tokens_in=spent.tokens_in, tokens_out=spent.tokens_out, cost=spent.cost
            ),
            proven_at=datetime.now(UTC),
        )
        template.version += template.record is not None
        template.record = record
        if self._store:
            await asyncio.get_running_loop().run_in_executor(self._threads, partial(self._store.put, record))

    def _note_failure(self, template: _Template, error: str) -> None:
        template.recorder = None
        template.failures += 1
        if template.failures >= _MOST_FAILURES:
            template.error = error


def count_all(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return the sums of counts by name."""
    total: Counter[str] = Counter()
    for each in counts:
        total.update(each)
    return dict(total)


def _read_features(wanted: StepsWanted) -> tuple[int, ...]:
    return get_features(_parse(wanted.url, wanted.body).document)


def _parse(url: str, body: bytes) -> Element:
    return Document(Page(url, url, 200, None, "text/html", "utf-8", body, datetime.now(UTC)), "html").root
