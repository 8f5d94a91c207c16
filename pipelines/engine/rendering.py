"""Pages by HTTP, and in the browser where selectors find something that scripts have made (`render: auto`)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Any, Self, TypeVar

from pipelines.engine.definition import Pass
from pipelines.engine.progress import ProgressReporter
from pipelines.extract import SelectorFailed, compile_selector
from pipelines.extract.kinds import Parser
from pipelines.extract.rows import Fetched, PageSelector
from pipelines.extract.selectors import SelectorError
from pipelines.fetch import Fetcher, Page
from pipelines.fetch.fetcher import Describe
from pipelines.fetch.urls import get_host
from pipelines.filesystem import create_folder, is_disk_full, read_file, write_file
from pipelines.inference.templates import Features, Templates, get_features

T = TypeVar("T")
_CHUNK = 64  # pages that are asked for by HTTP before some of them are rendered
_PROBES = 2  # pages of a template that are rendered in vain for a selector before it is given up
_FORMAT = 1
_Waiting = tuple[Page, T, "Template", frozenset[str]]


@dataclass(slots=True)
class Template:
    """Selectors of a template that only rendered pages match, and how often others were rendered in vain."""

    name: str
    scripted: set[str] = field(default_factory=set[str])
    vain: Counter[str] = field(default_factory=Counter[str])

    def wants_browser(self, missing: Iterable[str]) -> bool:
        return any(each in self.scripted or self.vain[each] < _PROBES for each in missing)


class TemplateStore:
    """Findings about the templates of all hosts, in files of a folder; without one, it is forgotten."""

    def __init__(self, folder: str | None) -> None:
        self._folder = folder
        self._hosts: dict[str, tuple[Templates, dict[str, Template]]] = {}
        self._changed = set[str]()

    def find(self, host: str, features: tuple[int, ...]) -> Template:
        """Return the template of a page with these features."""
        if host not in self._hosts:
            known = self._load(host)
            templates = {name: Template(name, set(each["scripted"])) for name, each in known.items()}
            for name, each in known.items():
                templates[name].vain.update(dict.fromkeys(each["plain"], _PROBES))
            self._hosts[host] = Templates({name: each["features"] for name, each in known.items()}), templates
        assigned, templates = self._hosts[host]
        name = assigned.assign(features)
        return templates.setdefault(name, Template(name))

    def note_change(self, host: str) -> None:
        self._changed.add(host)

    def save(self) -> None:
        """Write what was learned; a failure is no failure of the run, whose successor learns it again."""
        if not self._folder or not self._changed:
            return
        with suppress(OSError):
            create_folder(self._folder)
        for host in self._changed:
            assigned, templates = self._hosts[host]
            content = {
                name: {
                    "features": assigned.get_features(name),
                    "scripted": sorted(each.scripted),
                    "plain": sorted(selector for selector, count in each.vain.items() if count >= _PROBES),
                }
                for name, each in templates.items()
            }
            try:
                write_file(self._name(host), json.dumps({"format": _FORMAT, "templates": content}).encode())
            except OSError as error:
                if is_disk_full(error):
                    raise

    def _load(self, host: str) -> Mapping[str, dict[str, Any]]:
        with suppress(OSError, ValueError, KeyError, TypeError):
            content = json.loads(read_file(self._name(host)) or b"{}") if self._folder else {}
            found: dict[str, dict[str, Any]] = content["templates"] if content.get("format") == _FORMAT else {}
            return {name: {**each, "features": _read_features(each)} for name, each in found.items()}
        return {}

    def _name(self, host: str) -> str:
        return f"{self._folder}/{host.replace(':', '_')}.json"


def add_rendering(task: Pass, open_fetcher: Callable[[Pass], Fetcher], reporter: ProgressReporter) -> Fetcher:
    """Return the fetcher of a pass: one that renders pages where it is to find out which need it."""
    http, scripts = open_fetcher(task), task.fetching.scripts
    if scripts is None:
        return http
    rendered = replace(task, fetching=replace(task.fetching, scripts=None, browsing=scripts), tracking=None)
    learned, store = reporter.get_counts(task.enters).rendering, TemplateStore(task.templates)
    browser = partial(open_fetcher, rendered)
    return RenderingFetcher(http, browser, task.list_selectors(), store, learned, task.fetching.parser)


class RenderingFetcher:
    """A fetcher that asks by HTTP, and renders pages on which a selector finds nothing.

    A rendered page takes the place of the other where one of these selectors finds something on it. That is learned for
    each template of a host: further pages of it are rendered at once, or not at all. `open_browser` is called when the
    first page is rendered. `learned` gets the selectors made by script by template, or an empty text.
    """

    def __init__(
        self,
        http: Fetcher,
        open_browser: Callable[[], Fetcher],
        selectors: Iterable[PageSelector],
        store: TemplateStore,
        learned: dict[str, str],
        parser: Parser | None = None,
    ) -> None:
        self._http = http
        self._open_browser = open_browser
        self._browser: Fetcher | None = None
        self._selectors = dict(_compile(selectors))
        self._store = store
        self._learned = learned
        self._parser: Parser | None = parser
        self._resources = ExitStack()

    def __enter__(self) -> Self:
        self._resources.enter_context(self._http)
        return self

    def __exit__(self, *_: object) -> None:
        self._store.save()
        self._resources.close()

    def fetch(self, requests: Iterable[tuple[str, T]], describe: Describe[T] | None = None) -> Iterator[tuple[Page, T]]:
        """Yield the page of each (url, tag); no request waits while pages are rendered."""
        source = iter(requests)
        while chunk := [*islice(source, _CHUNK)]:
            waiting: list[_Waiting[T]] = []
            for page, tag in self._http.fetch(chunk, describe):
                judged = self._judge(page)
                if judged is None:
                    yield page, tag
                else:
                    waiting.append((page, tag, *judged))
            while waiting:
                waiting, due = self._choose(waiting)
                yield from self._render(due)

    def _judge(self, page: Page) -> tuple[Template, frozenset[str]] | None:
        """Return the template of a page that may need the browser, and the selectors that find nothing on it."""
        if not page.ok or not self._selectors:
            return None
        fetched = Fetched.from_page(page, parser=self._parser)
        if fetched.root is None or fetched.root.node is None:
            return None
        host = get_host(page.url)
        template = self._store.find(host, get_features(fetched.root.document))
        self._learned.setdefault(f"{host} {template.name}", ", ".join(sorted(template.scripted)))
        missing = self._find_missing(fetched)
        return (template, missing) if template.wants_browser(missing) else None

    def _find_missing(self, fetched: Fetched) -> frozenset[str]:
        missing = set[str]()
        for text, selector in self._selectors.items():
            with suppress(SelectorFailed):
                if fetched.root is None or not fetched.root.select(selector):
                    missing.add(text)
        return frozenset(missing)

    def _choose(self, waiting: list[_Waiting[T]]) -> tuple[list[_Waiting[T]], list[_Waiting[T]]]:
        """Return the pages that wait for what others of their template show, and those that are due now."""
        probes, later, due = Counter[int](), waiting[:0], waiting[:0]
        for entry in waiting:
            template, missing = entry[2:]
            is_known = bool(missing & template.scripted) or not template.wants_browser(missing)
            if is_known or probes[id(template)] < _PROBES:
                probes[id(template)] += not is_known
                due.append(entry)
            else:
                later.append(entry)
        return later, due

    def _render(self, due: list[_Waiting[T]]) -> Iterator[tuple[Page, T]]:
        rendered = [entry for entry in due if entry[2].wants_browser(entry[3])]
        for page, tag, template, missing in due:
            if not template.wants_browser(missing):
                yield page, tag
        if not rendered:
            return
        if self._browser is None:
            self._browser = self._resources.enter_context(self._open_browser())
        for found, (page, tag, template, missing) in self._browser.fetch(
            (entry[0].requested_url, entry) for entry in rendered
        ):
            gained = missing - self._find_missing(Fetched.from_page(found)) if found.ok else frozenset[str]()
            self._learn(page, template, missing, gained)
            is_better = gained or (found.ok and missing & template.scripted)
            yield (found if is_better else page), tag

    def _learn(self, page: Page, template: Template, missing: frozenset[str], gained: frozenset[str]) -> None:
        host = get_host(page.url)
        if gained - template.scripted:
            template.scripted |= gained
            self._learned[f"{host} {template.name}"] = ", ".join(sorted(template.scripted))
            self._store.note_change(host)
        for each in missing - gained - template.scripted:
            template.vain[each] += 1
            if template.vain[each] == _PROBES:
                self._store.note_change(host)


def describe_rendering(learned: Mapping[str, str]) -> str:
    """Return a sentence about the templates that need the browser."""
    scripted = {selector for text in learned.values() for selector in text.split(", ") if selector}
    count = sum(bool(each) for each in learned.values())
    total = f"{len(learned):,} template{'' if len(learned) == 1 else 's'}"
    if not count:
        return f"browser: none of {total}"
    verb = "is" if len(scripted) == 1 else "are"
    return f"browser: {count:,} of {total}, because {', '.join(sorted(scripted))} {verb} made by script"


def _compile(selectors: Iterable[PageSelector]) -> Iterator[tuple[str, Any]]:
    for each in selectors:
        if each.selector and not each.is_prompt and not each.selector.startswith(("$", "/")):
            with suppress(SelectorError):
                yield each.selector, compile_selector(each.selector)


def _read_features(known: Mapping[str, Any]) -> Features:
    return tuple(int(each) for each in known["features"])
