"""Plan of a pipeline: pure data for the engine, the orchestrator and people."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from pipelines.errors import PipelineError, Problem
from pipelines.fetch import canonical_url
from pipelines.fetch.requests import Method, RequestArguments, RequestTemplate, build_template
from pipelines.fetch.urls import origin
from pipelines.filesystem import split_address
from pipelines.language.columns import ENGINE_COLUMNS, Columns
from pipelines.language.formats import list_format_libraries
from pipelines.planning.check import CheckCall
from pipelines.planning.model import Options, Output
from pipelines.planning.stage import Export, LinkStage, Reset, RowStage, Sink, Source, Stage, TableStage

_ENGINE_COLUMN = re.compile(r"\b(?:" + "|".join(name for name in ENGINE_COLUMNS if name != "_ordinal") + r")\b", re.I)


class Kind(StrEnum):
    SOURCE = "source"
    FETCH = "fetch"
    ROWS = "rows"
    TABLE = "table"
    OUTPUT = "output"


@dataclass(frozen=True, slots=True)
class Step:
    """One step; `columns` are those after it, and `line` is its line in the pipeline's text."""

    key: str
    title: str
    kind: Kind
    columns: Columns
    line: int | None = None
    stage: Stage | None = None

    @property
    def name(self) -> str:
        """The stage's name."""
        return self.title.partition(" ")[0]

    @property
    def location(self) -> str:
        """The line and the stage's name, for errors."""
        return f"line {self.line}: {self.name}" if self.line else self.name


@dataclass(frozen=True, slots=True)
class NamedCredential:
    """The credential that a stage or the output names for a path in a bucket."""

    name: str
    location: str


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps in order, ending with the output; `str(plan)` groups them by the passes they run in.

    A run for a partition replaces the rows with the values `partition` of columns, which a step adds.
    """

    steps: tuple[Step, ...]
    output: Output
    options: Options
    checks: tuple[CheckCall, ...] = ()
    warnings: tuple[Problem, ...] = field(default=())
    partition: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def columns(self) -> Columns:
        """Columns of the output."""
        return self.steps[-1].columns

    @property
    def ends_in_any_order(self) -> bool:
        """Whether the output's rows are in no particular order, such as after a join."""
        for step in reversed(self.steps[:-1]):
            stage = step.stage
            if stage is not None and stage.capabilities.loses_order:
                return True
            if not isinstance(stage, TableStage | Sink | Export):
                return False
            if stage.capabilities.sets_order:
                return False
        return False

    @property
    def reads_files(self) -> bool:
        """Whether the plan reads files."""
        stages = [step.stage for step in self.steps if step.stage]
        return any(isinstance(each, Source) or each.list_inputs() or each.list_tables() for each in stages)

    @property
    def uses_browser(self) -> bool:
        """Whether the plan loads pages in the browser."""
        fetching = (step.stage.fetching for step in self.steps if step.stage is not None)
        return any(each.browsing or each.scripts for each in fetching)

    def find_script(self) -> Step | None:
        """Return the first step that runs a script of the pipeline's author in pages."""
        for step in self.steps:
            how = step.stage.fetching.browsing if step.stage else None
            if how and any(action.runs_script for action in how.traces):
                return step
        return None

    @property
    def uses_model(self) -> bool:
        """Whether a language model may be called."""
        return any(step.stage.uses_model for step in self.steps if step.stage)

    @property
    def libraries(self) -> frozenset[str]:
        """The Java libraries that Spark needs for the stages and the output (pipelines/spark/jars.py)."""
        stages = (library for step in self.steps if step.stage for library in step.stage.list_libraries())
        storage = ("s3",) if self.buckets else ()
        return frozenset((*stages, *list_format_libraries(self.output.format), *storage))

    @property
    def buckets(self) -> tuple[str, ...]:
        """The buckets of users that the plan reads and writes."""
        found = (parts[0] for path in self._list_paths() if (parts := split_address(path)))
        return tuple(dict.fromkeys(found))

    def _list_paths(self) -> Iterator[str]:
        """Yield the paths of files that the plan reads and writes."""
        for step in self.steps:
            yield from step.stage.list_inputs() if step.stage else ()
            if isinstance(step.stage, Sink):
                yield step.stage.path
        if self.output.path:
            yield self.output.path

    @property
    def bucket_credentials(self) -> Mapping[str, NamedCredential]:
        """The credentials that the pipeline names, by bucket: a run reaches a bucket by one of them."""
        named = [
            (path, NamedCredential(name, step.location))
            for step in self.steps
            if step.stage
            for path, name in step.stage.list_credentials()
        ]
        if self.output.path and self.output.credential:
            named.append((self.output.path, NamedCredential(self.output.credential, "output")))
        return {parts[0]: each for path, each in reversed(named) if (parts := split_address(path))}

    def keep_apart(self) -> Plan:
        """Return the plan of a run that publishes nothing: one Parquet output, without stages that write elsewhere.

        Raises PipelineError for a stage that reads the path of a save.
        """
        sinks = [step for step in self.steps if isinstance(step.stage, Sink | Export)]
        saved = {step.stage.path: step for step in sinks if isinstance(step.stage, Sink)}
        steps = tuple(step for step in self.steps if step not in sinks)
        problems: list[Problem] = []
        for step in steps:
            for path in step.stage.list_inputs() if step.stage else ():
                if path in saved:
                    message = f"{step.name} reads what {saved[path].name} writes, and a run that does not publish saves"
                    problems.append(Problem("needs-saves", f"{message} nothing", line=step.line))
        if problems:
            raise PipelineError(problems)
        output = replace(steps[-1], title="output of a run that does not publish")
        return replace(self, steps=(*steps[:-1], output), output=Output())

    def keeps_failures(self, after: Step) -> bool:
        """Return whether the output or a later step uses engine columns, for which rows without a page are kept."""
        later = self.steps[self.steps.index(after) + 1 :]
        return bool(
            any(name in ENGINE_COLUMNS for name in self.columns)
            or any(step.stage and _ENGINE_COLUMN.search(repr(step.stage)) for step in later)
        )

    def build_request(
        self, stage: LinkStage | Source, columns: Columns, secrets: Iterable[str] = ()
    ) -> RequestTemplate | None:
        """Return the template of a stage's requests for rows with these columns; None for plain GETs.

        Requests with one of the `secrets` in them go to known hosts only.
        """
        if stage.fetching.browsing:
            return None
        stages = (step.stage for step in self.steps)
        named = (url for each in stages if isinstance(each, LinkStage | Source) for url in each.fixed_urls)
        origins = {origin(url) for each in named if (url := canonical_url(each))}
        follows_pages = isinstance(stage, LinkStage) and stage.reads_page
        return build_template(
            stage.fetching.request, self.options, columns.has, origins, follows_pages=follows_pages, secrets=secrets
        )

    def discards_effects(self, step: Step) -> bool:
        """Return whether a source or reset discards rows whose requests have effects."""
        for earlier in reversed(self.steps[: self.steps.index(step)]):
            if has_effects(earlier.stage, self.options):
                return True
            if isinstance(earlier.stage, Source | Reset):
                break
        return False

    def count_changes(self, step: Step) -> int:
        """Return how many steps up to this one change the sites' answers, so that earlier pages are out of date."""
        steps = self.steps[: self.steps.index(step) + 1]
        return sum(changes_answers(each.stage, self.options) for each in steps)

    def iter_passes(self) -> Iterator[tuple[Step, ...]]:
        """Iterate over groups of steps that run together; a source, fetch or table step begins a new pass."""
        current: list[Step] = []
        for step in self.steps:
            if current and step.kind in (Kind.SOURCE, Kind.FETCH, Kind.TABLE):
                yield tuple(current)
                current = []
            current.append(step)
        yield tuple(current)

    def __str__(self) -> str:
        lines: list[str] = []
        for number, steps in enumerate(self.iter_passes(), start=1):
            lines.append(f"pass {number}")
            lines.extend(_format_steps(steps))
        lines.append(f"columns: {self.columns}")
        lines.extend(f"check: {check}" for check in self.checks)
        return "\n".join(lines)


def has_effects(stage: Stage | None, options: Options) -> bool:
    """Return whether the requests of a stage matter beyond its rows: all but plain GETs outside a session."""
    if isinstance(stage, Source) and stage.gives_page:
        return options.shares_cookies
    if not isinstance(stage, LinkStage):
        return False
    how = stage.fetching
    own = how.request or RequestArguments()
    is_plain = _get_method(own, options) is Method.GET and not (own.headers or own.cookies)
    return options.shares_cookies or not is_plain or how.browsing is not None or how.file_limit is not None


def changes_answers(stage: Stage | None, options: Options) -> bool:
    """Return whether later requests may be answered otherwise: after a form or a login, not after a GET."""
    if not isinstance(stage, LinkStage):
        return False
    if stage.fetching.browsing:
        return options.shares_cookies and stage.capabilities.can_start and bool(stage.fetching.browsing.traces)
    return _get_method(stage.fetching.request or RequestArguments(), options) is not Method.GET


def _get_method(own: RequestArguments, defaults: RequestArguments) -> Method:
    return own.own_method or defaults.own_method or Method.GET


def _format_steps(steps: tuple[Step, ...]) -> Iterator[str]:
    for step in steps:
        where = f"line {step.line}" if step.line else ""
        yield f"  {step.key:<20} {where:<9} {step.title}".rstrip()
        if step.kind is not Kind.OUTPUT:
            yield f"  {'':<30} -> {step.columns}"


def make_step_key(number: int, name: str) -> str:
    """Return a key such as `s02_wgetJoin`, unique in the plan and valid as an orchestrator's name."""
    return f"s{number:02d}_{re.sub(r'[^A-Za-z0-9_]', '_', name)}"


def find_link_limits(steps: Sequence[Step], limit: int | None) -> dict[str, int]:
    """Return, by the key of a step that follows links, how many of its links suffice for a limit after it.

    A link gives at least one row, unless its page fails, and rows are in the order of their links, unless a later stage
    drops or reorders them. `limit` is the number of rows that are kept in the end.
    """
    limits = dict[str, int]()
    wanted = limit
    for step in reversed(steps):
        stage = step.stage
        if isinstance(stage, LinkStage):
            if wanted is not None:
                limits[step.key] = wanted
            if stage.drops_rows_without_link or stage.max_depth is not None:  # an explore drops repeated pages
                wanted = None
        elif isinstance(stage, TableStage):
            most = stage.capabilities.max_rows
            kept = [number for number in (wanted, most) if number is not None]
            wanted = min(kept, default=None) if most is not None or stage.keeps_rows else None
        elif stage is not None and not (isinstance(stage, RowStage) and stage.keeps_rows):
            wanted = None
    return limits


def find_last_fetches(steps: Iterable[Step]) -> frozenset[str]:
    """Return the keys of the steps whose pages rows end with: the last one that fetches after every source."""
    found, last = set[str](), ""
    for step in steps:
        stage = step.stage
        if isinstance(stage, Source | Reset):
            found.add(last)
            last = ""
        if isinstance(stage, LinkStage) or (isinstance(stage, Source) and stage.gives_page):
            last = step.key
    return frozenset((*found, last)) - {""}
