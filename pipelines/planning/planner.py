"""Model → plan: what each stage needs of the ones before it, and the columns that it leaves."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice

from pipelines.errors import MAX_PROBLEMS, NOT_READ, PipelineError, Problem, RunError
from pipelines.language.columns import ENGINE_COLUMNS, Columns, engine_fault, name_fault
from pipelines.language.names import describe_unknown, suggest, truncate
from pipelines.language.nodes import MappingNode, Node, ScalarNode, iter_scalars, list_children, locate_problem
from pipelines.language.parameters import parse_column_reference
from pipelines.planning.model import PipelineModel, StageCall
from pipelines.planning.plan import Kind, Plan, Step, step_key
from pipelines.planning.stage import LinkStage, Reset, RowStage, Sink, Source, Stage, TableStage

_REFERENCE = re.compile(r"\$(?!(?<=[?&]\$)\w+=)(\w+)")  # ?$filter= and &$filter= name parameters of a query
_MOST_NAMED = 50  # columns in a message
_BEGIN = "begin with a fetch, a wget with an address, or a load"


def plan(model: PipelineModel) -> Plan:
    """The plan of a model; raises PipelineError with every problem found."""
    walk = _Walk()
    for call in _needed(model.stages):
        if len(walk.problems) >= MAX_PROBLEMS:
            raise PipelineError([*walk.problems, locate_problem(call.node, NOT_READ)])
        walk.add(call)
    walk.end(model)
    if walk.problems:
        raise PipelineError(walk.problems)
    steps = (*walk.steps, _output(walk, model))
    return Plan(steps, model.output, model.options)


def _needed(calls: tuple[StageCall, ...]) -> tuple[StageCall, ...]:
    """The calls without those whose rows are thrown away, and without a fetch that the next wget replaces."""
    needed: list[StageCall] = []
    for call in calls:
        if isinstance(call.stage, Source | Reset):
            while needed and not _lasts(needed[-1].stage):
                needed.pop()
        elif _is_seed(call) and len(needed) == 1 and _is_seed(needed[0]):
            needed.pop()
        needed.append(call)
    return tuple(needed)


def _lasts(stage: Stage) -> bool:
    """Whether what the stage does outlives the rows that it leaves."""
    if isinstance(stage, TableStage) and (stage.shows or stage.stores() is not None):
        return True
    return isinstance(stage, Reset | Sink)


def _is_seed(call: StageCall) -> bool:
    return isinstance(call.stage, LinkStage) and call.stage.literal() is not None


def _starts(stage: Stage) -> bool:
    """Whether the stage can stand where there are no rows."""
    if isinstance(stage, LinkStage):
        return stage.literal() is not None
    return isinstance(stage, Source | Reset) or (isinstance(stage, TableStage) and stage.begins)


def _kind(stage: Stage) -> Kind:
    if isinstance(stage, Source):
        return Kind.SOURCE
    if isinstance(stage, LinkStage):
        return Kind.FETCH
    return Kind.ROWS if isinstance(stage, RowStage) else Kind.TABLE


def _output(walk: _Walk, model: PipelineModel) -> Step:
    place = model.output.path or "the execution's own place"
    title = f"output {model.output.mode} {place}"
    return Step(step_key(len(walk.steps) + 1, "output"), title, Kind.OUTPUT, walk.columns)


@dataclass
class _Walk:
    """Where the planner stands: whether there are rows, their columns, and whether they carry a page or lost it."""

    steps: list[Step] = field(default_factory=list[Step])
    problems: list[Problem] = field(default_factory=list[Problem])
    columns: Columns = field(default_factory=Columns)
    rows: bool = False
    stored: dict[str, Node] = field(default_factory=dict[str, Node])
    saved: set[str] = field(default_factory=set[str])
    page: bool = False
    lost: Step | None = None
    dropped: Step | None = None  # where the engine's columns became null

    def add(self, call: StageCall) -> None:
        stage = call.stage
        kind = _kind(stage)
        self.problems.extend(islice(self._check(call), MAX_PROBLEMS))
        before = Columns() if isinstance(stage, Source | Reset) else self.columns
        self.columns = stage.columns(before)
        if self.columns is not before:
            self.problems.extend(islice(_name_problems(call.node, before, self.columns), MAX_PROBLEMS))
        title = f"{call.name} {stage.title()}".rstrip()
        step = Step(step_key(len(self.steps) + 1, call.name), title, kind, self.columns, call.node.line, stage)
        self.steps.append(step)
        self.rows = not isinstance(stage, Reset)
        if isinstance(stage, TableStage) and (label := stage.stores()):
            self.stored.setdefault(label, call.node)
        if isinstance(stage, Sink):
            self.saved.add(stage.path)
        if kind in (Kind.TABLE, Kind.SOURCE):
            self.lost = step if self.page else self.lost
            self.page = False
        self.page = self.page or stage.gives_page
        if isinstance(stage, TableStage) and stage.drops_engine_columns():
            self.dropped = step
        elif isinstance(stage, Source | Reset | LinkStage) or (isinstance(stage, TableStage) and stage.labels()):
            self.dropped = None

    def _check(self, call: StageCall) -> Iterator[Problem]:
        stage = call.stage
        if not self.rows and not _starts(stage):
            yield locate_problem(call.node, f"{call.written} has no rows to work on: {_BEGIN}")
            return
        for label in stage.labels() if isinstance(stage, TableStage) else ():
            if label not in self.stored:
                yield locate_problem(_mention(call.node, label), _no_label(label, self.stored))
        label = stage.stores() if isinstance(stage, TableStage) else None
        if label is not None and label in self.stored:
            where = f" (line {line})" if (line := self.stored[label].line) else ""
            yield locate_problem(_mention(call.node, label), f"'{label}' is stored already by an earlier stage{where}")
        if isinstance(stage, Sink) and stage.path in self.saved:
            yield locate_problem(
                _mention(call.node, stage.path), f"'{stage.path}' is saved already by an earlier stage"
            )
        if stage.uses_page() and not self.page:
            yield locate_problem(call.node, self._no_page(call.written))
        for name in stage.unknown(self.columns):
            hint = f"; in a page that is JSON it is $.{name}" if self.page and _is_field(call.node, name) else ""
            yield locate_problem(_mention(call.node, name), _no_column(name, self.columns) + hint)
        if fault := _address_fault(stage, self.columns):
            yield locate_problem(call.node, fault)
        if isinstance(stage, LinkStage) and self.dropped:
            for name in stage.reads():
                if name in ENGINE_COLUMNS and name not in tuple(self.columns):
                    yield locate_problem(_mention(call.node, name), _dropped(name, self.dropped))

    def _no_page(self, name: str) -> str:
        if self.lost:
            where = f"{self.lost.title} (line {self.lost.line})"
            again = "or put {stage: wget, args: [$_requestedUrl]} before it, which takes pages that are there already"
            return (
                f"{name} needs a page, and pages end at {where}, which works on whole tables: "
                f"move it before that, {again}"
            )
        return f"{name} needs a page: put a fetch, a wget or a join before it"

    def end(self, model: PipelineModel) -> None:
        node = model.node
        if not self.rows:
            self.problems.append(locate_problem(node, f"the pipeline has no rows: {_BEGIN}"))
        elif not self.problems and not (self.columns.types or self.columns.open or model.options.keep_columns):
            message = "the pipeline gives no columns: extract some, or name engine columns in spindle.keepColumns"
            self.problems.append(locate_problem(node, message))
        kept = [name for name in model.options.keep_columns if name not in tuple(self.columns)]
        self.columns = self.columns.with_columns(tuple((name, ENGINE_COLUMNS[name]) for name in kept))


def _name_problems(node: Node, before: Columns, after: Columns) -> Iterator[Problem]:
    """Of the names that a stage has added."""
    if (clash := after.find_clash()) and not before.find_clash():
        yield locate_problem(node, _differ(clash))
    known = {*before}
    for name in after:
        if name not in known and (fault := name_fault(name)):
            yield locate_problem(_mention(node, name), fault)


def check_names(made_up: Iterable[str], columns: Columns) -> None:
    """Checks names that a function made up, which are among the columns; raises RunError."""
    faults = [fault for name in made_up if (fault := name_fault(name) or engine_fault(name))]
    if clash := columns.find_clash():
        faults.append(_differ(clash))
    if faults:
        raise RunError(faults[0])


def _differ(clash: tuple[str, str]) -> str:
    return f"the columns '{clash[0]}' and '{clash[1]}' differ only in case"


def check_references(steps: Iterable[Step], columns: Columns) -> None:
    """Checks the steps after a source whose columns are known only now; raises RunError."""
    for step in steps:
        if step.stage is None:
            return
        for name in step.stage.unknown(columns):
            raise RunError(f"line {step.line}: {step.title}: {_no_column(name, columns)}")
        if fault := _address_fault(step.stage, columns):
            raise RunError(f"line {step.line}: {fault}")
        columns = step.stage.columns(columns)
        if clash := columns.find_clash():
            raise RunError(f"line {step.line}: {_differ(clash)}")


def _no_column(name: str, columns: Columns) -> str:
    spellings = {each.casefold(): each for each in chain(ENGINE_COLUMNS, columns)}
    meant = [spellings[each] for each in suggest(name.casefold(), spellings)]
    there = ", ".join(islice(columns, _MOST_NAMED)) or "none yet"
    known = f"{there} and {more:,} more" if (more := len(columns.types) - _MOST_NAMED) > 0 else there
    hint = f"did you mean {' or '.join(meant)}? There are {known}" if meant else f"known are {known}"
    return f"there is no column '{name}' here; {hint}"


def _address_fault(stage: Stage, columns: Columns) -> str | None:
    """What is wrong with an address that holds the name of a column: it is one for all rows, as it stands."""
    address = stage.literal() if isinstance(stage, LinkStage) else None
    name = next((each for each in _REFERENCE.findall(address or "") if each in tuple(columns)), None)
    if name is None:
        return None
    return (
        f"'{truncate(address or '')}' is one address for all rows, with ${name} as it stands; "
        f"make a column of addresses by sql_query, with concat('https://...', {name}) AS address, and give $address; "
        "a $ that is meant is written %24"
    )


def _dropped(name: str, step: Step) -> str:
    where = f" (line {step.line})" if step.line else ""
    return f"{name} is null here: it is not in the result of {truncate(step.title)}{where}; select it there, or *"


def _no_label(label: str, stored: Iterable[str]) -> str:
    return (
        describe_unknown("label", label, stored) if stored else f"nothing is stored as '{label}' by a stage before this"
    )


def _is_field(node: Node, name: str) -> bool:
    """Whether an extractor in `node` has the field `name`."""
    if isinstance(node, ScalarNode):
        return False
    if isinstance(node, MappingNode) and (field := node.get("field")) and field.plain() == name:
        return True
    return any(_is_field(child, name) for child in list_children(node))


def _mention(node: Node, column: str) -> Node:
    """The value in `node` that names `column`."""
    for scalar in iter_scalars(node):
        if isinstance(scalar.value, str) and column in (scalar.value, parse_column_reference(scalar.value)):
            return scalar
    arguments = node.get("args") if isinstance(node, MappingNode) else None
    return arguments or node
