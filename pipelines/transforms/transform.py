"""The row transforms of a run, found by name, and the functions that run them on rows."""

from __future__ import annotations

import dataclasses
import inspect
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from types import MappingProxyType
from typing import Any, cast, get_args, get_origin, get_type_hints, is_typeddict

from pipelines.errors import PipelineError
from pipelines.language.names import describe_unknown, normalize
from pipelines.registry import UnknownName
from pipelines.transforms import ROW_TRANSFORMS, RowFunction, source, values
from pipelines.transforms.sandbox import FunctionCall, Limits, Outcome, RowFailed, Sandbox, get_isolation_refusal
from pipelines.transforms.schema import Types, parse_annotation, parse_expression
from pipelines.transforms.source import FunctionSignature, Keywords

DEFAULT_LIMITS = Limits()
_WAYS = (
    "one is registered with the agent, by POST /svc/api/agents/{agentId}/python-extensions, or by a plugin; "
    "`spindle run` and `check` take a file of them: --transforms FILE"
)
RowsOf = Callable[[Iterable[Mapping[str, Any]]], Iterator[Outcome]]


@dataclass(frozen=True, slots=True)
class Transform:
    """A row transform; `code` is a user's text, or a trusted function. `packages` is a folder for a text's imports."""

    name: str
    function: FunctionSignature
    code: str | RowFunction
    limits: Limits
    packages: str | None = None

    def make_runner(self, arguments: Mapping[str, Any]) -> RowsOf:
        """Return a function from rows to their outcomes, in order."""
        if isinstance(self.code, str):
            return partial(_run_in_sandbox, self, values.dumps(dict(arguments)))
        return _run_in_worker(self.code, arguments)


@dataclass(frozen=True)
class Transforms:
    """The transforms of one run by name: its `own` texts or functions take precedence over those of plugins.

    `packages` is the folder of the packages that texts may import.
    """

    own: Mapping[str, str | RowFunction] = field(default_factory=lambda: MappingProxyType[str, Any]({}))
    limits: Limits = DEFAULT_LIMITS
    packages: str | None = None

    @classmethod
    def from_text(cls, text: str) -> Transforms:
        """Return the functions of a file; raise PipelineError for a syntax error."""
        return cls({name: text for name in source.list_functions(text)})

    def warning(self) -> str | None:
        """Return a warning if users' functions are not isolated on this machine."""
        texts = any(isinstance(code, str) for code in self.own.values())
        if not texts or (reason := get_isolation_refusal()) is None:
            return None
        return f"row transforms run as this user and can read its files: the system does not isolate them ({reason})"

    def find(self, name: str) -> Transform:
        """In any spelling; raises UnknownName, and PipelineError for a text that is wrong."""
        own = self._spellings.get(normalize(name))
        if own is not None:
            return self._get_own(own)
        plugged = ROW_TRANSFORMS.get(name)
        if plugged:
            return Transform(plugged.name, describe_function(plugged.name, plugged.thing), plugged.thing, self.limits)
        known = (*self.own, *(spelling for each in ROW_TRANSFORMS for spelling in each.spellings))
        raise UnknownName(f"{describe_unknown('row transform', name, known)} ({_WAYS})", "unknown-row-transform")

    def has_own(self, name: str) -> bool:
        """Return whether the name is of a function of Spindle, and not of a plugin."""
        return normalize(name) in self._spellings

    @cached_property
    def _spellings(self) -> Mapping[str, str]:
        return {normalize(own): own for own in reversed([*self.own])}  # of two equal spellings the first is called

    @cached_property
    def _read(self) -> dict[str, Transform | PipelineError]:
        """A cache of parsed texts: a thousand stages may call one."""
        return {}

    def _get_own(self, name: str) -> Transform:
        if name not in self._read:
            self._read[name] = self._read_own(name)
        found = self._read[name]
        if isinstance(found, PipelineError):
            raise PipelineError(found.problems)
        return found

    def _read_own(self, name: str) -> Transform | PipelineError:
        code = self.own[name]
        try:
            function = source.read_function(name, code) if isinstance(code, str) else describe_function(name, code)
        except PipelineError as error:
            return error
        return Transform(name, function, code, self.limits, self.packages)


def describe_function(name: str, function: RowFunction) -> FunctionSignature:
    """Return a function's signature; raise PipelineError like `source.read_function`."""
    hints = get_type_hints(function, include_extras=True)
    parameters = list(inspect.signature(function).parameters.values())
    named = [each for each in parameters[1:] if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)]
    required = tuple(each.name for each in named if each.default is each.empty)
    others = any(each.kind is each.VAR_KEYWORD for each in parameters)
    keywords = Keywords(tuple(each.name for each in named), required, others)
    return FunctionSignature(name, keywords, _read_columns(hints.get("return")))


def _read_columns(declared: Any) -> Types | None:
    kinds = [each for each in get_args(declared) if each is not type(None)]
    if type(None) in get_args(declared) and len(kinds) == 1:
        declared = kinds[0]
    if not (is_typeddict(declared) or dataclasses.is_dataclass(declared)):
        return None
    return tuple(
        (name, _convert_hint(name, hint)) for name, hint in get_type_hints(declared, include_extras=True).items()
    )


def _convert_hint(name: str, hint: Any) -> str:
    text = hint.__name__ if isinstance(hint, type) and get_origin(hint) is None else str(hint)
    node = parse_expression(text)
    type_ = parse_annotation(node) if node else None
    if type_ is None:
        raise PipelineError([source.make_type_problem(name)])
    return type_


def _run_in_sandbox(transform: Transform, arguments: str, rows: Iterable[Mapping[str, Any]]) -> Iterator[Outcome]:
    """Run in a sandbox, which is idle again after all rows."""
    idle = _get_idle_sandboxes(transform, arguments)
    box = idle.pop() if idle else _make_sandbox(transform, arguments)
    try:
        yield from box.run(rows)
    finally:
        idle.append(box)


@lru_cache(maxsize=16)
def _get_idle_sandboxes(transform: Transform, arguments: str) -> list[Sandbox]:
    """Return the idle sandboxes of a transform; they end with the worker."""
    return []


def _make_sandbox(transform: Transform, arguments: str) -> Sandbox:
    name, code = transform.name, cast(str, transform.code)
    function, loaded = transform.function.name, values.loads(arguments)
    return Sandbox(FunctionCall(name, code, function, loaded, transform.limits, packages=transform.packages))


def _run_in_worker(function: RowFunction, arguments: Mapping[str, Any]) -> RowsOf:
    def row(before: Mapping[str, Any]) -> Outcome:
        try:
            result = function(before, **arguments)
        except Exception as error:  # any exception fails the row, not the run
            return RowFailed(_describe_error(error))
        try:
            return _convert_result(result)
        except Exception as error:  # the value fits in no column
            return RowFailed(f"{type(error).__name__}: {error}")

    return lambda rows: map(row, rows)


def _convert_result(result: Any) -> Outcome:
    """Convert a result as a sandbox would; raise the errors of `values.dumps` and `values.loads`."""
    if dataclasses.is_dataclass(result) and not isinstance(result, type):
        result = dataclasses.asdict(result)
    if result is not None and not isinstance(result, dict):
        return RowFailed(f"it returned {type(result).__name__}, which is no row; a row is a dict, and None drops it")
    return cast("dict[str, Any] | None", values.loads(values.dumps(result)))


def _describe_error(error: Exception) -> str:
    """Return the error with its line in the file of the function."""
    frames = traceback.extract_tb(error.__traceback__)[1:]
    own = [frame.lineno for frame in frames if frame.filename == frames[0].filename]
    text = f"{type(error).__name__}: {error}".removesuffix(": ")
    return f"line {own[-1]}: {text}" if own else text
