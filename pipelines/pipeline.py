"""Pipeline: the entry point of the engine. Checks, plans and runs a pipeline's text."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from pipelines.contract.context import RunContext
from pipelines.engine.options import make_cache_options, make_fetch_options
from pipelines.environments.folders import open_local_store
from pipelines.environments.packages import PackageRefused, get_name, validate_package
from pipelines.environments.uv import IndexUnavailable, InstallFailed
from pipelines.errors import MAX_PROBLEMS, TOO_MANY_PROBLEMS, PipelineError, Problem, RunError
from pipelines.language.nodes import MappingNode, Node, Plain, ScalarNode, SequenceNode, locate_problem, parse, to_node
from pipelines.language.parameters import (
    Value,
    find_parameter_defaults,
    find_parameters,
    find_required_parameters,
    find_unknown_parameters,
    replace_defaults,
    replace_parameters,
)
from pipelines.language.plugin_scope import ALL_PLUGINS, ANY_PLUGINS, PluginScope
from pipelines.planning.model import PipelineModel, StageCall
from pipelines.planning.plan import Plan
from pipelines.planning.planner import make_plan
from pipelines.planning.reader import find_unknown_keys, read_model, select_engine_keys
from pipelines.registry import UnknownName
from pipelines.transforms import ROW_TRANSFORMS, RowFunction
from pipelines.transforms.transform import Transforms

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NO_TRANSFORMS = Transforms()


class Pipeline:
    """A parsed pipeline; methods raise PipelineError with located problems where it is not valid."""

    def __init__(self, root: Node) -> None:
        self._root = select_engine_keys(root)
        self._ignored_keys = find_unknown_keys(root)

    @classmethod
    def from_yaml(cls, text: str, plugins: PluginScope = ALL_PLUGINS) -> Pipeline:
        """Parse a YAML text and check its structure; parameters may still be open, and names that plugins may bring."""
        pipeline = cls(parse(text))
        with pipeline._add_warnings():
            _read_open_model(pipeline._root, plugins)
        return pipeline

    @classmethod
    def of(
        cls,
        *,
        stages: Sequence[Mapping[str, Plain]],
        fetch: Mapping[str, Plain] | None = None,
        output: Mapping[str, Plain] | None = None,
        spindle: Mapping[str, Plain] | None = None,
        checks: Sequence[Mapping[str, Plain]] | None = None,
    ) -> Pipeline:
        """Build a pipeline from Python values, its stages from `stage`; problems have a path instead of a line."""
        blocks = {"fetch": fetch, "output": output, "spindle": spindle}
        given: dict[str, Plain] = {name: dict(block) for name, block in blocks.items() if block is not None}
        if checks is not None:
            given["checks"] = [dict(each) for each in checks]
        pipeline = cls(to_node({**given, "pipeline": [dict(each) for each in stages]}))
        _read_open_model(pipeline._root, ALL_PLUGINS)
        return pipeline

    @contextmanager
    def _add_warnings(self) -> Generator[None]:
        """Add the ignored keys to a PipelineError: a key without indentation is often the cause of its problems."""
        try:
            yield
        except PipelineError as error:
            error.warnings = self._ignored_keys
            raise

    @property
    def parameters(self) -> frozenset[str]:
        """The names of all `${NAME}` references in the keys that the engine reads."""
        return find_parameters(self._root)

    @property
    def required_parameters(self) -> frozenset[str]:
        """The names of those without a default."""
        return find_required_parameters(self._root)

    @property
    def parameter_defaults(self) -> dict[str, str]:
        """The defaults, by name, of those that have the same one wherever they are referred to."""
        return find_parameter_defaults(self._root)

    def check_names(self, names: Iterable[str]) -> None:
        """Raise PipelineError for names that are no parameters of the pipeline."""
        if unknown := find_unknown_parameters(names, self.parameters):
            raise PipelineError(unknown)

    @property
    def packages(self) -> tuple[str, ...]:
        """The packages of its row functions, as name==version."""
        return read_model(self._root, ANY_PLUGINS).options.packages

    def locate_package_problem(self, name: str | None, code: str, message: str) -> Problem:
        """Return a problem of the package with this name, or of the whole list, with its line."""
        options = self._root.get("spindle") if isinstance(self._root, MappingNode) else None
        node = options.get("packages") if isinstance(options, MappingNode) else None
        named = node.items if isinstance(node, SequenceNode) else ()
        for position, item in enumerate(named):
            if isinstance(item, ScalarNode) and get_name(validate_package(str(item.value))) == name:
                return locate_problem(item, code, message, f"spindle.packages[{position}]")
        return locate_problem(node or self._root, code, message, "spindle.packages")

    def plan(
        self,
        parameters: Mapping[str, Value] | None = None,
        transforms: Transforms = NO_TRANSFORMS,
        plugins: PluginScope = ALL_PLUGINS,
    ) -> Plan:
        """Return the plan with these parameters; raises PipelineError for references, stages and functions it lacks.

        Row transforms are looked up in `transforms` first, then among those of plugins.
        """
        with self._add_warnings():
            written = replace_parameters(self._root, parameters or {})
            model, unknown = _bind_functions(read_model(written, plugins), transforms, plugins)
            if unknown:
                raise PipelineError(unknown)
            plan = make_plan(model)
            return replace(plan, warnings=(*self._ignored_keys, *plan.warnings))

    def plan_open(self, transforms: Transforms = NO_TRANSFORMS, plugins: PluginScope = ALL_PLUGINS) -> Plan:
        """Return the plan with open parameters; names that plugins and row transforms may bring are warnings."""
        with self._add_warnings():
            read, missing = _read_open_model(self._root, plugins)
            model, unknown = _bind_functions(read, transforms, plugins)
            plan = make_plan(model)
            return replace(plan, warnings=(*self._ignored_keys, *missing, *unknown, *plan.warnings))

    def fill_defaults(self) -> Pipeline:
        """Return the pipeline with the defaults of its parameters; those without one stay open."""
        filled = Pipeline(replace_defaults(self._root))
        filled._ignored_keys = self._ignored_keys
        return filled

    def check(self, transforms: Transforms = NO_TRANSFORMS) -> tuple[Problem, ...]:
        """Return the warnings of `plan_open`; raises PipelineError as it does."""
        return self.plan_open(transforms).warnings

    def add_packages(self, transforms: Transforms) -> Transforms:
        """Return the transforms with the pipeline's packages, installed into the user's cache where they are missing.

        Raise PipelineError for packages that cannot be had, RunError where they cannot be installed now.
        """
        packages = self.packages
        if not packages:
            return transforms
        try:
            return replace(transforms, packages=str(open_local_store().install_packages(packages)))
        except PackageRefused as error:
            raise PipelineError([self.locate_package_problem(error.name, error.code, error.message)]) from error
        except IndexUnavailable as error:
            raise RunError(str(error)) from error
        except InstallFailed as error:
            raise RunError(f"the packages cannot be installed: {error.reason}") from error

    def run(
        self,
        spark: SparkSession,
        parameters: Mapping[str, Value] | None = None,
        context: RunContext | None = None,
        transforms: Mapping[str, str | RowFunction] | None = None,
    ) -> DataFrame:
        """Run the pipeline and return its output rows, unordered; raises PipelineError and RunError.

        All pages are fetched before this returns, so later actions on the rows do not fetch. Without a context, only
        public addresses may be fetched, and all local files may be read. The pipeline's key `spindle` overrides the
        options of the context.
        """
        # imports Spark, which checks do not need
        from pipelines.engine.run import Run
        from pipelines.spark.runner import SparkRunner

        plan = self.plan(parameters, self.add_packages(Transforms(transforms or {})))
        context = context or RunContext()
        fetch = make_fetch_options(plan.options, context.fetch.allow_networks, context.fetch)
        context = replace(context, fetch=fetch, cache=make_cache_options(plan.options, context.cache))
        with Run(plan, context) as run:
            return SparkRunner(run, spark).collect()


def _read_open_model(root: Node, plugins: PluginScope) -> tuple[PipelineModel, Sequence[Problem]]:
    """Return the model of a document with open parameters, and a problem for every name that a plugin may bring.

    Raises PipelineError with all other problems.
    """
    try:
        return read_model(root, plugins), ()
    except PipelineError as error:
        missing = [each for each in error.problems if each.may_come or each.code == "too-many-problems"]
        return read_model(root, replace(plugins, accepts_new=True)), missing


def _bind_functions(
    model: PipelineModel, transforms: Transforms, plugins: PluginScope
) -> tuple[PipelineModel, list[Problem]]:
    """Bind stages to the row transforms that they name.

    Returns the model and a problem for every name that is unknown or not available; raises PipelineError for arguments
    that do not fit.
    """
    calls: list[StageCall] = []
    unknown: list[Problem] = []
    invalid: list[Problem] = []
    for call in model.stages:
        if len(unknown) + len(invalid) >= MAX_PROBLEMS:
            (invalid or unknown).append(locate_problem(call.node, "too-many-problems", TOO_MANY_PROBLEMS, call.path))
            calls.extend(model.stages[len(calls) :])
            break
        name = call.name.partition(":")[2]
        try:
            if name and not transforms.has_own(name) and (entry := ROW_TRANSFORMS.get(name)):
                entry.check_enabled(call.written, plugins)
            calls.append(call if "${" in name else replace(call, stage=call.stage.resolve(name, transforms)))
            continue
        except UnknownName as error:
            unknown.append(locate_problem(call.node, error.code, str(error), call.path))
        except PipelineError as error:
            invalid.extend(locate_problem(call.node, each.code, str(each), call.path) for each in error.problems)
        calls.append(call)
    if invalid:
        raise PipelineError(invalid)
    return replace(model, stages=tuple(calls)), unknown


def check_yaml(text: str) -> Pipeline:
    """Parse and plan a text with open parameters; raises PipelineError."""
    pipeline = Pipeline.from_yaml(text)
    pipeline.check()
    return pipeline
