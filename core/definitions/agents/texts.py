"""Agents' new texts: read, run and checked before the transaction that stores them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from core.definitions.agents.package_locks import PackageLocker
from core.definitions.agents.plan_outline import PlanOutline, outline_pipeline
from core.definitions.agents.python_code import run_code
from core.definitions.agents.validation import describe_problems, looks_like_pipeline
from core.definitions.plugins.scope import load_scope
from core.infra.database import Database
from core.infra.settings import Settings
from core.infra.validation import is_storable
from pipelines.errors import PipelineError
from pipelines.language.nodes import to_node, write_yaml
from pipelines.language.plugin_scope import PluginScope
from pipelines.pipeline import Pipeline
from pipelines.planning.notebook import read_notebook
from pipelines.planning.script_reader import read_packages, read_script, read_transforms
from pipelines.transforms.transform import Transforms


@dataclass(frozen=True, slots=True)
class AgentText:
    """The pipeline that an agent's code is, with the row transforms that came with it.

    With `is_python` it is a program that computes its pipeline; `warning` says why it gave none.
    """

    pipeline: str | None
    transforms: Mapping[str, str] = field(default_factory=dict[str, str])
    is_python: bool = False
    warning: str | None = None


@dataclass(frozen=True, slots=True)
class CheckedTexts:
    """What was found of agents' texts: the outlines of valid pipelines, what codes are, and the locks of packages."""

    pipelines: Mapping[str, PlanOutline] = field(default_factory=dict[str, PlanOutline])
    codes: Mapping[str, AgentText] = field(default_factory=dict[str, AgentText])
    locks: Mapping[tuple[str, ...], str] = field(default_factory=dict[tuple[str, ...], str])


def check_texts(
    database: Database,
    settings: Settings,
    organization_id: str,
    pipelines: Iterable[str | None],
    codes: Iterable[str | None],
) -> CheckedTexts:
    """Return what agents' new texts are.

    Called before a transaction: codes run for 10 s and the index may take 20, and other writers wait for its lock.
    Raise BadInput for a script with problems and for a package that cannot be had, with their lines, TooMany while
    too many codes run, and Unavailable where the index does not answer.
    """
    with database.read() as session:
        plugins = load_scope(session, organization_id).scope
    reader = _TextReader(settings, organization_id, PackageLocker(database, settings, organization_id), plugins)
    read = {code: reader.read_code(code) for code in set(codes) if code is not None and is_storable(code)}
    texts = {*pipelines, *(each.pipeline for each in read.values())}
    outlines = {text: outline_pipeline(text, plugins) for text in texts if text is not None and is_storable(text)}
    valid = {text: outline for text, outline in outlines.items() if outline.fault is None}
    named = {outline.packages: text for text, outline in valid.items() if outline.packages}
    locks = {packages: reader.locker.lock(Pipeline.from_yaml(text, plugins)) for packages, text in named.items()}
    return CheckedTexts(valid, read, locks)


@dataclass(frozen=True, slots=True)
class _TextReader:
    settings: Settings
    organization_id: str
    locker: PackageLocker
    plugins: PluginScope

    def read_code(self, code: str) -> AgentText:
        """Return the pipeline that a code is: as YAML, or as a script or notebook like those of `pysparkCode`.

        Other Python is run for it. Raise BadInput with the line, or the path, of every problem of a script.
        """
        notebook = read_notebook(code)
        if notebook is None and looks_like_pipeline(code):
            return AgentText(code)
        text = code if notebook is None else notebook
        try:
            script = read_script(text)
        except PipelineError as error:  # it computes something
            return self._run_code(text, error)
        if script is None:
            return self._run_code(text)
        try:  # here and not as YAML: the script has none of its lines
            Pipeline(to_node({**script.pipeline})).plan_open(Transforms(script.transforms), self.plugins)
        except PipelineError as error:
            raise describe_problems(error) from error
        return AgentText(write_yaml({**script.pipeline}), script.transforms)

    def _run_code(self, text: str, fault: PipelineError | None = None) -> AgentText:
        """Return the pipeline of a Python code; without one a warning, or the `fault` of the script."""
        lock = self._lock_packages(text)
        try:
            pipeline = run_code(self.settings, self.organization_id, text, lock=lock)
        except PipelineError as error:
            if fault is not None:
                fault.warnings = error.problems
                raise describe_problems(fault) from error
            return AgentText(None, is_python=True, warning=str(error))
        return AgentText(pipeline, read_transforms(text), is_python=True)

    def _lock_packages(self, text: str) -> str | None:
        try:
            named = read_packages(text)
        except PipelineError as error:
            raise describe_problems(error) from error
        return self.locker.lock(named) if named.packages else None
