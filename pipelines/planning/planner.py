"""Planner: checks the order of a pipeline's stages and infers the columns after each of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice

from pipelines.errors import MAX_PROBLEMS, TOO_MANY_PROBLEMS, ArgumentError, PipelineError, Problem, RunError
from pipelines.filesystem import split_address
from pipelines.language.columns import (
    ENGINE_COLUMNS,
    Columns,
    check_column_name,
    check_not_reserved,
    list_own_columns,
)
from pipelines.language.formats import Mode, describe_history_column, describe_unnamable_column, find_history_column
from pipelines.language.names import describe_unknown, suggest, truncate
from pipelines.language.nodes import MappingNode, Node, ScalarNode, iter_scalars, list_children, locate_problem
from pipelines.language.parameters import parse_column_reference
from pipelines.planning.check import CheckCall, describe_reserved_column, find_reserved_column
from pipelines.planning.first_row import FirstRow
from pipelines.planning.incremental import find_incremental_faults
from pipelines.planning.model import Options, PipelineModel, StageCall
from pipelines.planning.page_columns import DescribePages
from pipelines.planning.plan import Kind, Plan, Step, has_effects, make_step_key
from pipelines.planning.stage import (
    Export,
    LinkStage,
    Reset,
    RowStage,
    ServiceStage,
    Sink,
    Source,
    Stage,
    TableStage,
)

_REFERENCE = re.compile(r"\$(?!(?<=[?&]\$)\w+=)(\w+)")  # except ?$filter= and &$filter=, parameters of a query
_MOST_NAMED = 50  # columns in a message
_NO_COLUMNS = (
    "the pipeline makes no columns of its pages, so that each gives url, status and title; "
    "extract others, or name engine columns in spindle.keepColumns"
)
_NO_MODEL = (
    "{stage} serves pages that describe themselves, and those with proven selectors; others need a language model: "
    "without a credential of TOGETHERAI, OPENAI or ANTHROPIC their rows have an _error"
)
_NO_STEPS = (
    "{stage} performs its prompt by steps that were recorded on pages of the kind; others need a language model: "
    "without a credential of TOGETHERAI, OPENAI or ANTHROPIC their rows have an _error"
)
_NO_BUDGET = (
    "{stage} may make {calls} calls of the model for each kind of page, without a limit: "
    "spindle: {{model: {{maxCalls: 100}}}} sets one, as do maxTokens and maxCost"
)
_BEGIN = "begin with a fetch, a wget with an address, or a load"


def make_plan(model: PipelineModel) -> Plan:
    """Return the plan of a model; raises PipelineError with every problem found."""
    calls, unsent = _drop_replaced(model)
    if (render := model.options.render) is not None:
        calls = tuple(replace(call, stage=call.stage.render_by_default(render)) for call in calls)
    if calls and isinstance(first := calls[0].stage, ServiceStage) and first.can_start:
        calls = (StageCall("row", "row", FirstRow(), calls[0].node, calls[0].path), *calls)
    state = _follow_calls(calls, unsent)
    if state.lacks_columns(model) and (position := state.pages_until):
        warning = locate_problem(model.node, "no-columns", _NO_COLUMNS, "pipeline")
        described = StageCall("pages", "pages", DescribePages(), calls[position - 1].node, calls[position - 1].path)
        state = _follow_calls((*calls[:position], described, *calls[position:]), [*unsent, warning])
    state.finish(model)
    state.warnings += _find_model_warnings(calls, model)
    if state.problems:
        raise PipelineError(state.problems)
    target = model.output.path or "the execution's own place"
    key = make_step_key(len(state.steps) + 1, "output")
    format_ = "" if model.output.format == "parquet" else f" {model.output.format}"
    output = Step(key, f"output {model.output.mode}{format_} {target}", Kind.OUTPUT, state.columns)
    plan = Plan((*state.steps, output), model.output, model.options, model.checks)
    if model.options.incremental:
        dropped_at = state.engine_columns_dropped_at
        faults = [*find_incremental_faults(plan, model.options.incremental, model.node, dropped_at)]
        if problems := [each for each in faults if each.code != "changes-not-seen"]:
            raise PipelineError(problems)
        state.warnings += faults
    return replace(plan, warnings=tuple(state.warnings))


def _find_model_warnings(calls: Sequence[StageCall], model: PipelineModel) -> Iterator[Problem]:
    """Warn once, at the first stage that may call a model, where there is none or it has no limit."""
    asking = next((call for call in calls if call.stage.uses_model), None)
    if asking is None:
        return
    if model.options.model is None:
        sentence = _NO_MODEL if asking.stage.asks_questions else _NO_STEPS
        yield locate_problem(asking.node, "no-model", sentence.format(stage=asking.written), asking.path)
    elif not model.options.model.has_budget:
        sentence = _NO_BUDGET.format(stage=asking.written, calls=5 if asking.stage.asks_questions else 10)
        yield locate_problem(asking.node, "no-model-budget", sentence, asking.path)


def _follow_calls(calls: Iterable[StageCall], warnings: Iterable[Problem]) -> _State:
    """Return the state after all stages; raises PipelineError with too many problems."""
    state = _State(warnings=[*warnings])
    for call in calls:
        if len(state.problems) >= MAX_PROBLEMS:
            state.problems.append(locate_problem(call.node, "too-many-problems", TOO_MANY_PROBLEMS, call.path))
            raise PipelineError(state.problems)
        state.add(call)
    return state


def _drop_replaced(model: PipelineModel) -> tuple[tuple[StageCall, ...], list[Problem]]:
    """Return the calls without those whose rows nothing uses, and a warning for every request that is not sent.

    A later source or reset discards the rows, or a wget of another address the page of a fetch directly before it.
    """
    needed, unsent = list[StageCall](), list[Problem]()

    def drop_last(successor: StageCall) -> None:
        call = needed.pop()
        if call.stage.gives_page and len(unsent) < MAX_PROBLEMS:
            where = f" (line {successor.node.line})" if successor.node.line else ""
            message = (
                f"{call.written} is not sent: {successor.written}{where} "
                "discards its page before a stage reads it; 'spindle: {session: true}' sends it for its cookies"
            )
            unsent.append(locate_problem(call.node, "not-sent", message, call.path))

    for call in model.stages:
        if isinstance(call.stage, Source | Reset):
            while needed and not _has_lasting_effect(needed[-1].stage, model.options):
                drop_last(call)
        elif _is_seed(call) and len(needed) == 1 and _is_seed(needed[0]) and _gives_one_plain_page(needed[0], model):
            drop_last(call)
        needed.append(call)
    return tuple(needed), unsent


def _has_lasting_effect(stage: Stage, options: Options) -> bool:
    """Return whether the stage does something besides returning rows."""
    does = stage.capabilities
    keeps = does.shows_rows or does.stored_label is not None or isinstance(stage, Reset | Sink | Export)
    return keeps or has_effects(stage, options)


def _gives_one_plain_page(call: StageCall, model: PipelineModel) -> bool:
    stage = call.stage
    if not isinstance(stage, LinkStage) or stage.fetching.pagination is not None or len(stage.fixed_urls) != 1:
        return False
    return not has_effects(stage, model.options)


def _is_seed(call: StageCall) -> bool:
    return isinstance(call.stage, LinkStage) and bool(call.stage.fixed_urls)


def _get_kind(stage: Stage) -> Kind:
    if isinstance(stage, Source):
        return Kind.SOURCE
    if isinstance(stage, LinkStage):
        return Kind.FETCH
    return Kind.ROWS if isinstance(stage, RowStage) else Kind.TABLE


@dataclass
class _State:
    """State of the planner after a stage: whether there are rows, their columns, and whether they have a page.

    `pages_until` is the number of stages up to the last with a page.
    """

    steps: list[Step] = field(default_factory=list[Step])
    problems: list[Problem] = field(default_factory=list[Problem])
    warnings: list[Problem] = field(default_factory=list[Problem])
    columns: Columns = field(default_factory=Columns)
    selected: tuple[str, ...] = ()  # names of columns that only the text of a query shows
    has_rows: bool = False
    stored: dict[str, Node] = field(default_factory=dict[str, Node])
    saved: set[str] = field(default_factory=set[str])
    credentials: dict[str, str] = field(default_factory=dict[str, str])
    has_page: bool = False
    page_lost_at: Step | None = None
    pages_until: int = 0
    engine_columns_dropped_at: Step | None = None
    order_lost_at: Step | None = None

    def add(self, call: StageCall) -> None:
        stage = call.stage
        kind = _get_kind(stage)
        self._report(call, self._check(call))
        self._report(call, self._check_credentials(stage.list_credentials(), call.node))
        before = Columns() if isinstance(stage, Source | Reset) else self.columns
        self.columns = stage.infer_columns(before)
        if self.columns is not before:
            self.selected = stage.list_selected_names() if isinstance(stage, TableStage) else ()
            self._report(call, _check_new_names(call.node, before, self.columns))
        title = f"{call.name} {stage.describe()}".rstrip()
        step = Step(make_step_key(len(self.steps) + 1, call.name), title, kind, self.columns, call.node.line, stage)
        self.steps.append(step)
        self.has_rows = not isinstance(stage, Reset)
        does = stage.capabilities
        if label := does.stored_label:
            self.stored.setdefault(label, call.node)
        if isinstance(stage, Sink):
            self.saved.add(stage.path)
        self._follow_order(call, step)
        if kind in (Kind.TABLE, Kind.SOURCE):
            self.page_lost_at = step if self.has_page else self.page_lost_at
            self.has_page = False
        self.has_page = self.has_page or stage.gives_page
        self.pages_until = len(self.steps) if self.has_page else self.pages_until
        if does.drops_engine_columns:
            self.engine_columns_dropped_at = step
        elif isinstance(stage, Source | Reset | LinkStage) or does.used_labels:
            self.engine_columns_dropped_at = None

    def _follow_order(self, call: StageCall, step: Step) -> None:
        """Remember where the rows lose their order, and warn at a stage that keeps the first of such rows."""
        does = call.stage.capabilities
        if does.sets_order:
            self.order_lost_at = None
        elif does.loses_order:
            self.order_lost_at = step
        elif does.max_rows is not None and (lost := self.order_lost_at):
            where = f" (line {lost.line})" if lost.line else ""
            message = (
                f"{call.written} keeps any {does.max_rows} rows: they have no order after {lost.name}{where}; "
                "end its SELECT with ORDER BY, or put {stage: sort, args: [COLUMN]} before this"
            )
            self.warnings.append(locate_problem(call.node, "no-order", message, call.path))

    def _check_credentials(self, named: Iterable[tuple[str, str]], node: Node) -> Iterator[Problem]:
        """Find buckets for which two credentials are named: a run has one for each."""
        for path, name in named:
            bucket = (split_address(path) or ("",))[0]
            if bucket and "${" not in bucket and self.credentials.setdefault(bucket, name) != name:
                message = f"the bucket '{bucket}' is reached by the credential '{self.credentials[bucket]}' elsewhere"
                yield locate_problem(_find_mention(node, name), "conflicting-arguments", message)

    def _report(self, call: StageCall, problems: Iterable[Problem]) -> None:
        self.problems.extend(replace(each, path=call.path) for each in islice(problems, MAX_PROBLEMS))

    def _list_names(self) -> list[str]:
        """Return the names of the own columns that the text shows, also of those without a known type."""
        return [*list_own_columns(self.columns), *self.selected]

    def lacks_columns(self, model: PipelineModel) -> bool:
        """Return whether the rows of a valid pipeline have no columns."""
        has_columns = self.columns.types or self.columns.open or model.options.keep_columns
        return self.has_rows and not self.problems and not has_columns

    def finish(self, model: PipelineModel) -> None:
        node = model.node
        if not self.has_rows:
            self.problems.append(locate_problem(node, "no-rows", f"the pipeline has no rows: {_BEGIN}", "pipeline"))
        elif self.lacks_columns(model):
            message = "the pipeline gives no columns: extract some, or name engine columns in spindle.keepColumns"
            self.problems.append(locate_problem(node, "no-columns", message, "pipeline"))
        kept = [name for name in model.options.keep_columns if name not in tuple(self.columns)]
        self.columns = self.columns.with_columns(tuple((name, ENGINE_COLUMNS[name]) for name in kept))
        for call in model.checks:
            self.problems.extend(self._find_missing_columns(call))
        if reserved := find_reserved_column(model.checks, self.columns):
            call, message = reserved[0], describe_reserved_column(*reserved)
            self.problems.append(locate_problem(call.node, "reserved-column", message, call.path))
        if model.output.path and model.output.credential:
            named = [(model.output.path, model.output.credential)]
            self.problems.extend(replace(each, path="output") for each in self._check_credentials(named, node))
        if fault := describe_unnamable_column(model.output.format, self._list_names()):
            self.problems.append(locate_problem(node, "invalid-column-name", f"output: {fault}", "output"))
        if model.output.mode is Mode.HISTORY and (taken := find_history_column(self.columns)):
            message = f"output: {describe_history_column(taken)}"
            self.problems.append(locate_problem(node, "reserved-column", message, "output"))
        if not self.columns.open:
            for name in filter(
                None, (*model.output.keys, model.output.within, *model.output.ignore, *model.output.partition_by)
            ):
                if name not in tuple(self.columns) and "${" not in name:
                    message = _describe_unknown_column(name, self.columns)
                    self.problems.append(locate_problem(node, "unknown-column", f"output: {message}", "output"))

    def _find_missing_columns(self, call: CheckCall) -> Iterator[Problem]:
        """Find columns of a check that the output lacks."""
        for name in call.check.find_missing_columns(self.columns):
            if self.columns.open or "${" in name:
                continue
            hint = "; spindle.keepColumns puts it there" if name in ENGINE_COLUMNS else ""
            message = f"{call.name}: there is no column '{name}' in the output{hint}"
            similar = [] if hint else suggest(name, self.columns)
            message += f"; did you mean {' or '.join(similar)}?" if similar else ""
            yield locate_problem(_find_mention(call.node, name), "unknown-column", message, call.path)

    def _check(self, call: StageCall) -> Iterator[Problem]:
        stage, node = call.stage, call.node
        if not self.has_rows and not stage.capabilities.can_start:
            yield locate_problem(node, "no-rows", f"{call.written} has no rows to work on: {_BEGIN}")
            return
        if isinstance(stage, TableStage):
            yield from self._check_labels(stage, node)
        if isinstance(stage, Sink) and stage.path in self.saved:
            message = f"'{stage.path}' is saved already by an earlier stage"
            yield locate_problem(_find_mention(node, stage.path), "duplicate-path", message)
        if isinstance(stage, Sink) and (fault := describe_unnamable_column(stage.format, self._list_names())):
            yield locate_problem(node, "invalid-column-name", fault)
        if isinstance(stage, LinkStage) and stage.seed_file is not None and self.has_rows:
            message = (
                f"the file of {call.written} begins a pipeline, and there are rows already: "
                "put a load_csv of the file before, and give its column of addresses, such as $url"
            )
            yield locate_problem(_find_mention(node, stage.seed_file), "conflicting-arguments", message)
        if stage.reads_page and not self.has_page:
            yield locate_problem(node, "no-page", self._describe_missing_page(call.written))
        for name in stage.find_unknown_columns(self.columns):
            hint = f"; in a page that is JSON it is $.{name}" if self.has_page and _has_field(node, name) else ""
            message = _describe_unknown_column(name, self.columns) + hint
            yield locate_problem(_find_mention(node, name), "unknown-column", message)
        for name in stage.find_taken_columns(self.columns):
            yield locate_problem(_find_mention(node, name), "duplicate-column", describe_taken_column(name))
        if fault := _find_column_in_address(stage, self.columns):
            yield locate_problem(node, "column-in-address", fault)
        if isinstance(stage, LinkStage) and (step := self.engine_columns_dropped_at):
            where = f" (line {step.line})" if step.line else ""
            for name in stage.list_references():
                if name in ENGINE_COLUMNS and name not in tuple(self.columns):
                    message = f"{name} is null here: it is not in the result of {truncate(step.title)}{where}"
                    mention = _find_mention(node, name)
                    yield locate_problem(mention, "null-column", f"{message}; select it there, or *")

    def _check_labels(self, stage: TableStage, node: Node) -> Iterator[Problem]:
        for label in stage.capabilities.used_labels:
            if label not in self.stored:
                message = f"nothing is stored as '{label}' by a stage before this"
                message = describe_unknown("label", label, self.stored) if self.stored else message
                yield locate_problem(_find_mention(node, label), "unknown-label", message)
        label = stage.capabilities.stored_label
        if label is not None and label in self.stored:
            where = f" (line {line})" if (line := self.stored[label].line) else ""
            message = f"'{label}' is stored already by an earlier stage{where}"
            yield locate_problem(_find_mention(node, label), "duplicate-label", message)

    def _describe_missing_page(self, name: str) -> str:
        if self.page_lost_at is None:
            return f"{name} needs a page: put a fetch, a wget or a join before it"
        where = f"{self.page_lost_at.title} (line {self.page_lost_at.line})"
        return (
            f"{name} needs a page, and pages end at {where}, which works on whole tables: move it before that, "
            "or put {stage: wget, args: [$_requestedUrl]} before it, which does not fetch those pages again"
        )


def _check_new_names(node: Node, before: Columns, after: Columns) -> Iterator[Problem]:
    """Check the names of the columns that a stage added."""
    if (clash := after.find_clash()) and not before.find_clash():
        yield locate_problem(node, "duplicate-column", _describe_clash(clash))
    known = {*before}
    for name in after:
        if name not in known:
            try:
                check_column_name(name)
            except ArgumentError as error:
                yield locate_problem(_find_mention(node, name), error.code, str(error))


def check_inferred_names(inferred: Iterable[str], columns: Columns) -> None:
    """Check column names that a row transform returned; raises RunError. `columns` are all columns after it."""
    try:
        for name in inferred:
            check_column_name(name)
            check_not_reserved(name)
    except ArgumentError as error:
        raise RunError(str(error)) from None
    if clash := columns.find_clash():
        raise RunError(_describe_clash(clash))


def check_references(steps: Iterable[Step], columns: Columns) -> None:
    """Check the steps after one whose columns only the run discovers; raises RunError."""
    for step in steps:
        if step.stage is None:
            return
        for name in step.stage.find_unknown_columns(columns):
            sentence = f"line {step.line}: {step.title}: {_describe_unknown_column(name, columns)}"
            raise RunError(sentence, step.line)
        for name in step.stage.find_taken_columns(columns):
            raise RunError(f"line {step.line}: {step.title}: {describe_taken_column(name)}", step.line)
        if fault := _find_column_in_address(step.stage, columns):
            raise RunError(f"line {step.line}: {fault}", step.line)
        columns = step.stage.infer_columns(columns)
        if clash := columns.find_clash():
            raise RunError(f"line {step.line}: {_describe_clash(clash)}", step.line)


def _describe_clash(clash: tuple[str, str]) -> str:
    return f"the columns '{clash[0]}' and '{clash[1]}' differ only in case"


def describe_taken_column(name: str) -> str:
    """Return the sentence for a column that a stage adds to rows that have it already."""
    return f"the rows have a column '{name}' already: give a 'prefix', which new columns begin with"


def _describe_unknown_column(name: str, columns: Columns) -> str:
    spellings = {each.casefold(): each for each in chain(ENGINE_COLUMNS, columns)}
    similar = [spellings[each] for each in suggest(name.casefold(), spellings)]
    listed = ", ".join(islice(columns, _MOST_NAMED)) or "none yet"
    known = f"{listed} and {more:,} more" if (more := len(columns.types) - _MOST_NAMED) > 0 else listed
    hint = f"did you mean {' or '.join(similar)}? There are {known}" if similar else f"known are {known}"
    return f"there is no column '{name}' here; {hint}"


def _find_column_in_address(stage: Stage, columns: Columns) -> str | None:
    """Return a sentence if a fixed address contains the name of a column, which would not be replaced."""
    for address in stage.fixed_urls if isinstance(stage, LinkStage) else ():
        name = next((each for each in _REFERENCE.findall(address) if each in tuple(columns)), None)
        if name is not None:
            return _describe_column_in_address(address, name)
    return None


def _describe_column_in_address(address: str, name: str) -> str:
    return (
        f"'{truncate(address)}' is one address for all rows, in which ${name} is not replaced; "
        f"make a column of addresses by sql_query, with concat('https://...', {name}) AS address, and give $address; "
        "write a literal $ as %24"
    )


def _has_field(node: Node, name: str) -> bool:
    """Return whether an extractor in `node` reads the field `name`."""
    if isinstance(node, ScalarNode):
        return False
    if isinstance(node, MappingNode) and (field := node.get("field")) and field.to_plain() == name:
        return True
    return any(_has_field(child, name) for child in list_children(node))


def _find_mention(node: Node, name: str) -> Node:
    """Return the value in `node` that names a column, label or path."""
    for scalar in iter_scalars(node):
        if isinstance(scalar.value, str) and name in (scalar.value, parse_column_reference(scalar.value)):
            return scalar
    arguments = node.get("args") if isinstance(node, MappingNode) else None
    return arguments or node
