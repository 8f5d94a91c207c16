"""Proving: at most five calls of a model for one host, template and prompt."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import cast
from urllib.parse import urlsplit

from pipelines.contract.questions import ITEMS, Found, Question
from pipelines.extract.document import HtmlElement
from pipelines.inference.candidates import has_enough, make_candidate, make_reading, make_readings, rank_candidates
from pipelines.inference.grounding import Grounded, Location, PageIndex, is_supported, values_agree
from pipelines.inference.items import PageItems, complete_items, ground_items, items_agree, make_item_readings
from pipelines.inference.pruning import prune_html, prune_text
from pipelines.inference.questions import (
    GivenItem,
    GivenValue,
    ProposedReading,
    Sample,
    get_values,
    make_data,
    make_proposal_answer,
    make_proposal_task,
    make_reading_answer,
    make_reading_task,
)
from pipelines.inference.reading import get_path, read_value, select_elements
from pipelines.inference.records import Candidate, ProvenField, ProvenSelectors, Reading, RecordedUsage
from pipelines.inference.values import describe_values
from pipelines.models.budget import Budget, ModelFailed, Usage
from pipelines.models.client import ModelClient

MAX_CALLS = 5
MAX_SAMPLES = 12
_AT_ONCE = 3  # pages that one call reads
_CONSTANT_PAGES = 3  # a value that so many pages share needs support by the page
_MAX_PROPOSALS = 6


@dataclass(frozen=True, slots=True)
class Inference:
    """The findings of an inference.

    `values` and `items` are those of each sample, for use in the rows of these pages where there is no record; they are
    unproven. `failure` says why the inference ended early: then there is no record, and a later run asks again.
    """

    record: ProvenSelectors | None
    values: tuple[Mapping[str, Found], ...]
    items: tuple[PageItems, ...]
    usage: Usage
    failure: str | None = None


@dataclass(slots=True)
class _Page:
    """A sample with its known values: grounded values, or the elements of its items."""

    sample: Sample
    index: PageIndex
    is_read: bool = False
    grounded: dict[str, Grounded] = field(default_factory=dict[str, Grounded])
    items: list[HtmlElement] = field(default_factory=list[HtmlElement])
    named: int = 0  # items, of which the page does not have the `missing` ones
    missing: int = 0

    def has(self, name: str) -> bool:
        return bool(self.items) if name == ITEMS else name in self.grounded

    def agrees(self, name: str, reading: Reading) -> bool:
        """Return whether a reading gives the known values of the page."""
        if name == ITEMS and self.items:
            return items_agree(select_elements(reading, self.sample.element), self.items)
        value = read_value(reading, self.sample.element)
        return value is not None and values_agree(value, self.grounded[name].value)

    def gives(self, name: str, reading: Reading) -> bool:
        """Return whether a reading gives anything."""
        if name == ITEMS:
            return bool(select_elements(reading, self.sample.element))
        return read_value(reading, self.sample.element) is not None


def infer(
    question: Question,
    host: str,
    template: str,
    features: Sequence[int],
    samples: Sequence[Sample],
    client: ModelClient,
    budgets: Sequence[Budget] = (),
    calls: Budget | None = None,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> Inference:
    """Infer selectors for a question from pages of one host and template, six or more if there are.

    Three pages are read, or half of them with fewer than six; selectors are made from them and have to give the values
    of the pages that are read afterwards.
    `calls` are those of the template, if some are made already. Raises ValueError for pages of several hosts.
    """
    if len({urlsplit(each.url).hostname for each in samples}) > 1:
        raise ValueError("pages of two hosts never share a call")
    proving = _Proving(
        question, [_Page(each, PageIndex(each.element)) for each in samples[:MAX_SAMPLES]], client, budgets, calls
    )
    failure = None
    try:
        proving.run()
    except ModelFailed as failed:
        failure = str(failed)
    usage = proving.calls.spent
    values = tuple(proving.list_values(page) for page in proving.pages)
    items = tuple(_list_items(page) for page in proving.pages)
    if failure or not proving.has_proof():
        return Inference(None, values, items, usage, failure)
    record = ProvenSelectors(
        host=host,
        template=template,
        features=tuple(features),
        prompt=question.prompt,
        prompt_key=question.key,
        kind=question.kind,
        fields=tuple(proving.prove(name) for name in question.names),
        sample_urls=tuple(page.sample.url for page in proving.pages if page.is_read),
        model=client.model.name,
        usage=RecordedUsage(calls=usage.calls, tokens_in=usage.tokens_in, tokens_out=usage.tokens_out, cost=usage.cost),
        proven_at=now(),
    )
    return Inference(record, values, items, usage)


class _Proving:
    """The state of one inference."""

    def __init__(
        self,
        question: Question,
        pages: Sequence[_Page],
        client: ModelClient,
        budgets: Sequence[Budget],
        calls: Budget | None,
    ) -> None:
        self.question = question
        self.pages = pages
        self.calls = calls or Budget("one template", MAX_CALLS)
        self._client = client
        self._budgets = (self.calls, *budgets)
        self._proposed: dict[str, list[Reading]] = {}
        held_out = _AT_ONCE if len(pages) >= 2 * _AT_ONCE else len(pages) // 2
        self._first = pages[: min(len(pages) - held_out, _AT_ONCE)]
        self._held_out = pages[len(self._first) : len(self._first) + held_out]
        self._further = list(pages[len(self._first) + held_out :])

    def run(self) -> None:
        """Read, propose, read the held-out pages, and repair at most twice."""
        self._read(self._first)
        if not self._held_out:
            return
        self._propose(name for name in self._list_known(self._first) if not has_enough(self._list_agreeing(name)))
        self._read(self._held_out)
        asked: set[str] = set()
        while self.calls.spent.calls < MAX_CALLS:
            missing = [name for name in self.question.names if not self._get_gate(name)]
            failing = [name for name in self.question.names if name not in missing and not self._get_proven(name)]
            if missing and self._further:
                self._read([self._further.pop(0) for _ in range(min(_AT_ONCE, len(self._further)))])
            elif failing and not asked.issuperset(failing):
                asked.update(failing)
                self._propose(failing)
            else:
                break

    def _read(self, pages: Sequence[_Page]) -> None:
        """Ask for the values of some pages, and keep those that the pages have."""
        links = self.question.kind == "links"
        data = make_data([{"text": prune_text(page.sample.element, links)} for page in pages])
        task, form = make_reading_task(self.question), make_reading_answer(self.question)
        answer = self._client.ask(task, data, form, self._budgets)
        for each in get_values(answer)["pages"]:
            given = get_values(each)
            number = cast("int", given["page"]) - 1
            if 0 <= number < len(pages) and not pages[number].is_read:
                self._keep(pages[number], given["content"])
        for page in pages:
            page.is_read = True
        self._drop_doubtful([page for page in self.pages if page.is_read])

    def _keep(self, page: _Page, content: object) -> None:
        page.is_read = True
        if self.question.kind != "values":
            items = cast("list[GivenItem]", content)
            found = ground_items(page.index, page.sample.element, items, self.question.kind)
            page.items, page.missing, page.named = *found, len(items)
            return
        given = cast("dict[str, GivenValue]", get_values(content))  # pyright: ignore[reportArgumentType]
        for name in self.question.fields:
            value = given[name].value
            witness = page.sample.metadata.get(name)
            if witness and not (value and _is_alike(value, witness)):
                value = witness
            if (grounded := page.index.ground(value)) is not None:
                page.grounded[name] = grounded

    def _drop_doubtful(self, pages: Sequence[_Page]) -> None:
        """Drop values in the place of another field's value, or that all pages share, unless the page names them."""
        for page in pages:
            for name, grounded in [*page.grounded.items()]:
                others = (each for other, each in page.grounded.items() if other != name)
                if _share_place(grounded, others) and not _has_support(name, grounded):
                    del page.grounded[name]
        for name in self.question.fields:
            found = [page.grounded[name] for page in pages if name in page.grounded]
            if len(found) >= _CONSTANT_PAGES and len({each.value for each in found}) == 1:
                for page in pages:
                    if name in page.grounded and not _has_support(name, page.grounded[name]):
                        del page.grounded[name]

    def _propose(self, names: Iterable[str]) -> None:
        """Ask for selectors of some fields, by the elements around their values."""
        wanted = [*names]
        if not wanted:
            return
        pages: list[dict[str, object]] = []
        for page in self.pages:
            if not page.is_read or not any(page.has(name) for name in wanted) or len(pages) == _AT_ONCE:
                continue
            nodes = [place.node for name in wanted if name in page.grounded for place in page.grounded[name].locations]
            nodes += [each.node for each in page.items[:3]] if ITEMS in wanted else []
            values = {name: page.grounded[name].value for name in wanted if name in page.grounded}
            pages.append({"values": values, "html": prune_html(page.sample.element, nodes)})
        answer = self._client.ask(
            make_proposal_task(self.question), make_data(pages), make_proposal_answer(wanted), self._budgets
        )
        for name, proposals in get_values(answer).items():
            readings = (_make_proposed(each) for each in cast("list[ProposedReading]", proposals)[:_MAX_PROPOSALS])
            self._proposed.setdefault(name, []).extend(each for each in readings if each is not None)

    def _list_known(self, pages: Iterable[_Page]) -> list[str]:
        known = [*pages]
        return [name for name in self.question.names if any(page.has(name) for page in known)]

    def _get_sources(self, name: str) -> list[_Page]:
        """Return the pages that the candidates of a field are made from."""
        pages = [page for page in self.pages if page.is_read and page.has(name)]
        first = [page for page in pages if page in self._first]
        return first or pages[: len(pages) // 2]

    def _get_gate(self, name: str) -> list[_Page]:
        """Return the pages that prove the candidates of a field: they are no sources."""
        sources = self._get_sources(name)
        if not sources:
            return []
        return [page for page in self.pages if page.is_read and page.has(name) and page not in sources]

    def _list_agreeing(self, name: str) -> list[Candidate]:
        """Return the candidates that give the known values of their sources."""
        sources = self._get_sources(name)
        readings = dict.fromkeys(self._proposed.get(name, ()))
        for page in sources[:2]:
            if name == ITEMS:
                readings |= dict.fromkeys(make_item_readings(page.sample.element, page.items))
                continue
            for place in page.grounded[name].locations:
                readings |= dict.fromkeys(make_readings(place, page.sample.element))
        return [
            make_candidate(each, len(sources))
            for each in readings
            if sources and all(page.agrees(name, each) for page in sources)
        ]

    def _get_proven(self, name: str) -> tuple[Candidate, ...]:
        """Return the candidates that agree on every held-out page that has the field."""
        gate = self._get_gate(name)
        if not gate:
            return ()
        without = [page for page in self.pages if page.is_read and not page.has(name)]
        proven: list[Candidate] = []
        for candidate in self._list_agreeing(name):
            reading = candidate.reading
            if not all(page.agrees(name, reading) for page in gate):
                continue
            extras = sum(page.gives(name, reading) for page in without)
            if not (extras and candidate.stability < 40):
                counts = {"agreed": candidate.agreed + len(gate), "extras": extras}
                proven.append(candidate.model_copy(update=counts))
        return rank_candidates(proven)

    def has_proof(self) -> bool:
        """Return whether the pages can prove anything: a single one cannot, nor can a few without another list."""
        is_few = len(self.pages) < 2 * _AT_ONCE and self.question.kind != "values"
        return len(self.pages) > 1 and (not is_few or bool(self._get_gate(ITEMS)))

    def prove(self, name: str) -> ProvenField:
        """Return the field as it is stored, with the figures of its values on the pages that were read."""
        candidates, pages = self._get_proven(name), [page for page in self.pages if page.is_read]
        if not candidates:
            return ProvenField(name=name)
        gate = len(self._get_gate(name))
        if name == ITEMS:
            return ProvenField(name=name, candidates=candidates, pages=gate, fill=1.0)
        values = {page.sample.url: read_value(candidates[0].reading, page.sample.element) for page in pages}
        return ProvenField(
            name=name,
            candidates=candidates,
            pages=gate,
            known={url: value for url, value in values.items() if value and len(value) <= 500},
            **describe_values([*values.values()]),
        )

    def list_values(self, page: _Page) -> dict[str, Found]:
        """Return the grounded values of a page with their evidence."""
        found: dict[str, Found] = {}
        for name, grounded in page.grounded.items():
            place = next((each for each in grounded.locations if is_supported(name, each)), grounded.locations[0])
            text = place.element.text()[:200]
            found[name] = Found(grounded.value, text, get_path(place.node), page.sample.url, "model")
        return found


def _list_items(page: _Page) -> PageItems:
    found = complete_items(page.sample.element, page.items, page.named)
    return PageItems(tuple(get_path(each.node) for each in found), page.missing)


def _make_proposed(proposal: ProposedReading) -> Reading | None:
    method = f"attr:{proposal.attribute}" if proposal.method == "attr" else proposal.method
    return make_reading(proposal.selector, method)


def _is_alike(value: str, witness: str) -> bool:
    a, b = value.casefold(), witness.casefold()
    return values_agree(value, witness) or (len(a) > 3 and a in b) or (len(b) > 3 and b in a)


def _share_place(grounded: Grounded, others: Iterable[Grounded]) -> bool:
    places = {_identify(place) for place in grounded.locations}
    return any(places & {_identify(place) for place in other.locations} for other in others)


def _identify(place: Location) -> tuple[int, str]:
    return place.node.mem_id, place.method


def _has_support(name: str, grounded: Grounded) -> bool:
    return any(is_supported(name, place) for place in grounded.locations)
