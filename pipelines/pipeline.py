"""The front of the engine: a pipeline's text, checked, planned and run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pipelines.errors import MAX_PROBLEMS, NOT_READ, PipelineError, Problem
from pipelines.language import nodes as document
from pipelines.language.nodes import Node, Plain, locate_problem, to_node
from pipelines.language.parameters import Value, find_parameters, replace_parameters
from pipelines.planning import reader
from pipelines.planning.model import PipelineModel, StageCall
from pipelines.planning.plan import Plan
from pipelines.planning.planner import plan as plan_model
from pipelines.registry.catalog import UnknownName
from pipelines.transforms import RowFunction
from pipelines.transforms.transform import Transforms

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pipelines.planning.context import RunContext


NO_TRANSFORMS = Transforms()


def stage(name: str, /, *arguments: Plain, **named: Plain) -> dict[str, Plain]:
    """A stage of `Pipeline.of`: its arguments in order, by name, or first those and then these."""
    if not arguments:
        return {"stage": name, "args": named}
    return {"stage": name, "args": [*arguments, *([named] if named else [])]}


class Pipeline:
    """A pipeline whose text has been read; raises PipelineError with located problems wherever it is wrong."""

    def __init__(self, root: Node) -> None:
        self._root = reader.engine_keys(root)
        self._misspelt = reader.misspelt_keys(root)

    @classmethod
    def from_yaml(cls, text: str) -> Pipeline:
        """Parses the text and checks its shape; parameters may still be open."""
        pipeline = cls(document.parse(text))
        reader.read(pipeline._root)
        return pipeline

    @classmethod
    def of(
        cls,
        *,
        stages: Sequence[Mapping[str, Plain]],
        fetch: Mapping[str, Plain] | None = None,
        output: Mapping[str, Plain] | None = None,
        spindle: Mapping[str, Plain] | None = None,
    ) -> Pipeline:
        """The same from Python values, as `stage` makes them; errors name the place in them instead of a line."""
        blocks = {"fetch": fetch, "output": output, "spindle": spindle}
        given: dict[str, Plain] = {name: dict(block) for name, block in blocks.items() if block is not None}
        pipeline = cls(to_node({**given, "pipeline": [dict(each) for each in stages]}))
        reader.read(pipeline._root)
        return pipeline

    @property
    def parameters(self) -> frozenset[str]:
        """Names of the `${NAME}`s in what the engine reads of the text."""
        return find_parameters(self._root)

    def plan(self, parameters: Mapping[str, Value] | None = None, transforms: Transforms = NO_TRANSFORMS) -> Plan:
        """The plan with these parameters; lists every `${NAME}` without a value, and row transforms without a function.

        Row transforms are looked for among `transforms`, then among those of plugins.
        """
        model, unknown = _resolved(reader.read(replace_parameters(self._root, parameters or {})), transforms)
        if unknown:
            raise PipelineError(unknown)
        return replace(plan_model(model), warnings=self._misspelt)

    def plan_open(self, transforms: Transforms = NO_TRANSFORMS) -> Plan:
        """The plan as far as it is known while parameters have no values and row transforms may be registered later."""
        model, unknown = _resolved(reader.read(self._root), transforms)
        plan = plan_model(model)
        return replace(plan, warnings=(*self._misspelt, *unknown))

    def check(self, transforms: Transforms = NO_TRANSFORMS) -> tuple[Problem, ...]:
        """Plans with the parameters left open and returns warnings; raises PipelineError as `plan` does."""
        return self.plan_open(transforms).warnings

    def run(
        self,
        spark: SparkSession,
        parameters: Mapping[str, Value] | None = None,
        context: RunContext | None = None,
        transforms: Mapping[str, str | RowFunction] | None = None,
    ) -> DataFrame:
        """Runs the pipeline and returns its output rows, in no order; raises PipelineError and RunError.

        Pages are fetched before this returns, so no later action on the rows fetches again. Without a context, only
        public addresses are fetched and all local files may be read. What the pipeline's key `spindle` says goes over
        the context's.
        """
        # Spark is loaded by those who run, not by those who check
        from pipelines.planning.context import RunContext
        from pipelines.planning.options import cache_options, fetch_options
        from pipelines.spark.run import Run

        plan = self.plan(parameters, Transforms(transforms or {}))
        context = context or RunContext()
        fetch = fetch_options(plan.options, context.fetch.allow_networks, context.fetch)
        context = replace(context, fetch=fetch, cache=cache_options(plan.options, context.cache))
        with Run(plan, context) as run:
            return run.collect(spark)


def _resolved(model: PipelineModel, transforms: Transforms) -> tuple[PipelineModel, list[Problem]]:
    """The model with what its stages name, and the names that nothing has; raises PipelineError for a wrong call."""
    calls: list[StageCall] = []
    unknown: list[Problem] = []
    wrong: list[Problem] = []
    for call in model.stages:
        if len(unknown) + len(wrong) >= MAX_PROBLEMS:
            (wrong or unknown).append(locate_problem(call.node, NOT_READ))
            calls.extend(model.stages[len(calls) :])
            break
        name = call.name.partition(":")[2]
        try:
            calls.append(call if "${" in name else replace(call, stage=call.stage.resolved(name, transforms)))
            continue
        except UnknownName as error:
            unknown.append(locate_problem(call.node, str(error)))
        except PipelineError as error:
            wrong.extend(locate_problem(call.node, str(each)) for each in error.problems)
        calls.append(call)
    if wrong:
        raise PipelineError(wrong)
    return replace(model, stages=tuple(calls)), unknown


def check_yaml(text: str) -> Pipeline:
    """A pipeline that parses and plans, its parameters left open; raises PipelineError."""
    pipeline = Pipeline.from_yaml(text)
    pipeline.check()
    return pipeline
