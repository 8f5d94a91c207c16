"""Outlines of plans: steps, columns, checks and paths, stored with the agent so that readers need no parser."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pydantic import TypeAdapter

from pipelines.errors import PipelineError
from pipelines.language.origins import TracedColumn
from pipelines.language.plugin_scope import ANY_PLUGINS, PluginScope
from pipelines.local.engine_choice import choose_engine
from pipelines.pipeline import Pipeline
from pipelines.planning.lineage import trace_plan
from pipelines.planning.plan import Kind
from pipelines.planning.stage import Sink

VERSION = 8  # of the stored form; outlines of another version are computed again
# names that steps cannot have: those of the first and last step, and words that Dagster reserves
_TAKEN = ("start", "publish", "context", "conf", "config", "meta", "input", "output", "type", "dict", "int", "str")

ColumnTypes = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class StepOutline:
    """One step of a plan; `name` is that of its stage, numbered from the second one on (`extract`, `extract_2`).

    `pass_number` is that of its pass, from 1. `columns` are those after the step, and `has_open_columns` that only a
    run can discover all of them.
    """

    key: str
    name: str
    title: str
    pass_number: int
    line: int | None
    kind: str
    columns: ColumnTypes = ()
    has_open_columns: bool = False


@dataclass(frozen=True, slots=True)
class CheckOutline:
    """One check of a pipeline's output; `path` is its position in the text (`checks[0]`), `name` unique in the plan."""

    name: str
    path: str
    description: str
    severity: str


@dataclass(frozen=True, slots=True)
class PlanOutline:
    """The steps, inputs, outputs and parameters of a pipeline that its text shows. Paths may contain `${NAME}`.

    `tables` are the datasets that stages read by name, `packages` those of its row functions. `parameters` has
    names with their defaults in the text, None without one default. `kinds` are the usual runner, `local` or `spark`,
    and the format of the output. `lineage` has the output's columns, and `sources` all inputs of its stages.

    `fault` is a sentence about a pipeline that cannot be planned (any more); such an outline has no steps.
    """

    steps: tuple[StepOutline, ...] = ()
    checks: tuple[CheckOutline, ...] = ()
    reads: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    saves: tuple[str, ...] = ()
    output_path: str | None = None
    parameters: tuple[tuple[str, str | None], ...] = ()
    packages: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    lineage: tuple[TracedColumn, ...] = ()
    sources: tuple[str, ...] = ()
    fault: str | None = None
    version: int = VERSION

    @property
    def columns(self) -> ColumnTypes:
        return self.steps[-1].columns if self.steps else ()

    @property
    def has_open_columns(self) -> bool:
        return not self.steps or self.steps[-1].has_open_columns


_ADAPTER = TypeAdapter(PlanOutline)


def outline_pipeline(text: str, plugins: PluginScope = ANY_PLUGINS) -> PlanOutline:
    """Plan the text of a pipeline with open parameters and return the outline of the plan."""
    try:
        return outline_plan(Pipeline.from_yaml(text, plugins), plugins)
    except PipelineError as error:
        return PlanOutline(fault=f"The pipeline cannot be planned: {error.problems[0]}")


def outline_plan(pipeline: Pipeline, plugins: PluginScope) -> PlanOutline:
    """Return the outline of a pipeline's plan, with open parameters; raise PipelineError."""
    plan, defaults = pipeline.plan_open(plugins=plugins), pipeline.parameter_defaults
    names = _NameAllocator(_TAKEN)
    check_names = _NameAllocator(())
    stages, lineage = [step.stage for step in plan.steps if step.stage], trace_plan(plan)
    steps = [
        StepOutline(
            key=step.key,
            name=names.allocate("write_output" if step.kind is Kind.OUTPUT else step.name),
            title=step.title,
            pass_number=number,
            line=step.line,
            kind=step.kind.value,
            columns=step.columns.types,
            has_open_columns=step.columns.open,
        )
        for number, steps in enumerate(plan.iter_passes(), start=1)
        for step in steps
    ]
    checks = [
        CheckOutline(check_names.allocate(call.name), call.path, str(call), call.check.severity.value)
        for call in plan.checks
    ]
    return PlanOutline(
        steps=tuple(steps),
        checks=tuple(checks),
        reads=tuple(dict.fromkeys(path for stage in stages for path in stage.list_inputs())),
        tables=tuple(dict.fromkeys(name for stage in stages for name in stage.list_tables())),
        saves=tuple(dict.fromkeys(step.stage.path for step in plan.steps if isinstance(step.stage, Sink))),
        output_path=plan.output.path,
        parameters=tuple((name, defaults.get(name)) for name in sorted(pipeline.parameters)),
        packages=plan.options.packages,
        kinds=("spark" if choose_engine(plan).runs_on_spark else "local", plan.output.format),
        lineage=lineage.output,
        sources=lineage.sources,
    )


def dump_outline(outline: PlanOutline) -> dict[str, Any]:
    """Return the outline as JSON for the database."""
    return asdict(outline)


def read_outline(stored: Mapping[str, Any] | None) -> PlanOutline | None:
    """Return a stored outline, or None when it is missing or of another version."""
    if stored is None or stored.get("version") != VERSION:
        return None
    return _ADAPTER.validate_python(stored)


class _NameAllocator:
    """Allocates unique names of letters, digits and underscores."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = set(taken)

    def allocate(self, name: str) -> str:
        base = "".join(each if each.isascii() and each.isalnum() else "_" for each in name)[:60] or "step"
        number, candidate = 1, base
        while candidate in self._taken:
            number += 1
            candidate = f"{base}_{number}"
        self._taken.add(candidate)
        return candidate
