"""Located nodes → the frozen model of a pipeline."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeVar

from pipelines.errors import MAX_PROBLEMS, NOT_READ, PipelineError, Problem
from pipelines.language.arguments import bind, bind_list
from pipelines.language.names import describe_unknown, normalize, suggest, truncate_name
from pipelines.language.nodes import MappingNode, Node, ScalarNode, SequenceNode, list_children, locate_problem
from pipelines.planning import stage as registry
from pipelines.planning.model import Output, PipelineModel, StageCall
from pipelines.planning.options import Options
from pipelines.planning.stage import LinkStage
from pipelines.registry.catalog import UnknownName

Read = TypeVar("Read")

_KEYS = ("fetch", "pipeline", "output", "spindle")
_FETCH = ("url", "traces", "images")
_OPTIONS = {normalize(name): name for name in Options.argument_names()}
_MOST_STAGES = 1000
# the names that leave it to the pipeline's fetch how pages are made
_IN_BROWSER = {"join": "visitJoin", "explore": "visitExplore"}


class _Problems(list[Problem]):
    """Problems met so far, so that a text with three faults is told all three at once."""

    @contextmanager
    def collect(self, path: str = "") -> Generator[None]:
        try:
            yield
        except PipelineError as error:
            self.extend(replace(each, path=_join(path, each.path)) for each in error.problems)


def _join(path: str, below: str) -> str:
    return path if not below else below if not path else f"{path}{below}" if below[0] == "[" else f"{path}.{below}"


def read(root: Node) -> PipelineModel:
    """The model of a whole document; raises PipelineError with every problem found."""
    if not isinstance(root, MappingNode):
        raise PipelineError([locate_problem(root, "a pipeline is a map with the key 'pipeline', a list of stages")])
    problems = _Problems()
    stages: list[StageCall] = []
    output, options = Output(), Options()
    with problems.collect("fetch"):
        stages.extend(_optional(root, "fetch", _fetch, ()))
    with problems.collect("pipeline"):
        stages.extend(_stages(root, in_browser=bool(stages) and _browses(stages[0])))
    with problems.collect("output"):
        output = _optional(root, "output", lambda node: bind(Output, _map(node, "output")), output)
    with problems.collect("spindle"):
        options = _optional(root, "spindle", lambda node: bind(Options, _map(node, "spindle")), options)
    if problems:
        raise PipelineError(problems)
    return PipelineModel(tuple(stages), output, options, root.get("pipeline") or root)


def misspelt_keys(root: Node) -> tuple[Problem, ...]:
    """Keys that are like the engine's and ignored as those of others are."""
    if not isinstance(root, MappingNode):
        return ()
    found = ((key, suggest(str(key.value), _KEYS)) for key, _ in root.entries if key.value not in _KEYS)
    return tuple(
        locate_problem(key, f"the key '{truncate_name(str(key.value))}' is ignored; did you mean {meant[0]}?")
        for key, meant in found
        if meant and root.get(meant[0]) is None
    )


def engine_keys(root: Node) -> Node:
    """The document without what the engine ignores: keys of others, whose texts may hold a `${NAME}` of their own."""
    if not isinstance(root, MappingNode):
        return root
    return replace(root, entries=tuple(entry for entry in root.entries if entry[0].value in _KEYS))


def _optional(root: MappingNode, key: str, reading: Callable[[Node], Read], default: Read) -> Read:
    node = root.get(key)
    return default if node is None or (isinstance(node, ScalarNode) and node.value is None) else reading(node)


def _map(node: Node, name: str) -> MappingNode:
    if not isinstance(node, MappingNode):
        raise PipelineError([locate_problem(node, f"'{name}' must be a map")])
    return node


def _fetch(node: Node) -> tuple[StageCall, ...]:
    if isinstance(node, ScalarNode):
        raise PipelineError([locate_problem(node, "'fetch' must be a map: {url: https://...}")])
    block = _map(node, "fetch")
    if misplaced := [*_misplaced(block, _FETCH)]:
        raise PipelineError(misplaced)
    for key, _ in block.entries:
        if key.value not in _FETCH:
            raise PipelineError([locate_problem(key, describe_unknown("argument", str(key.value), _FETCH))])
    url = block.get("url")
    if url is None or (isinstance(url, ScalarNode) and url.value is None):
        raise PipelineError([locate_problem(node, "'url' is missing")])
    traces = block.get("traces")
    if traces is None or (isinstance(traces, ScalarNode) and traces.value is None):
        return (_call("fetch", "fetch", url, block),)
    return (replace(_call("visit", "fetch", block, block), name="fetch"),)


def _misplaced(block: MappingNode, takes: Iterable[str]) -> Iterator[Problem]:
    """Keys of a stage's arguments that a pipeline sets for all its stages."""
    known = {normalize(name) for name in takes}
    for key, _ in block.entries:
        name = _OPTIONS.get(normalize(str(key.value)))
        if name and normalize(name) not in known:
            yield locate_problem(key, f"{name} is set for the whole pipeline, in its key 'spindle'")


def _browses(call: StageCall) -> bool:
    return isinstance(call.stage, LinkStage) and call.stage.browsing() is not None


def _stages(root: MappingNode, in_browser: bool) -> Iterator[StageCall]:
    node = root.get("pipeline")
    if node is None:
        raise PipelineError([locate_problem(root, "the key 'pipeline' is missing: a list of stages")])
    if not isinstance(node, SequenceNode):
        raise PipelineError([locate_problem(node, "'pipeline' must be a list of stages")])
    if len(node.items) > _MOST_STAGES:
        raise PipelineError(
            [locate_problem(node.items[_MOST_STAGES], f"a pipeline has at most {_MOST_STAGES:,} stages")]
        )
    problems = _Problems()
    calls: list[StageCall] = []
    for position, item in enumerate(node.items):
        if len(problems) >= MAX_PROBLEMS:
            problems.append(locate_problem(item, NOT_READ))
            break
        with problems.collect(f"[{position}]"):
            calls.append(_stage(item, in_browser))
    if problems:
        raise PipelineError(problems)
    yield from calls


def _stage(item: Node, in_browser: bool) -> StageCall:
    if not isinstance(item, MappingNode):
        raise PipelineError([locate_problem(item, "a stage is a map with 'stage' and 'args'")])
    for key, _ in item.entries:
        if key.value not in ("stage", "args"):
            message = f"unknown key '{key.value}'; a stage has only 'stage' and 'args'"
            raise PipelineError([locate_problem(key, message)])
    name = item.get("stage")
    if not isinstance(name, ScalarNode) or not isinstance(name.value, str):
        raise PipelineError([locate_problem(name or item, "'stage' must be the name of a stage")])
    try:
        registered, stage = registry.find(
            _IN_BROWSER.get(normalize(name.value), name.value) if in_browser else name.value
        )
    except UnknownName as error:
        raise PipelineError([locate_problem(name, str(error), "stage")]) from None
    if stage.takes_name and not registered.partition(":")[2]:
        base = registered.rstrip(":")
        raise PipelineError([locate_problem(name, f"{base} needs the name of a function: {base}:NAME", "stage")])
    written = registered if stage.takes_name else name.value
    problems = _Problems()
    with problems.collect("args"):
        arguments = item.get("args")
        if not stage.takes_name:
            blocks = [each for each in (arguments, *list_children(arguments or item)) if isinstance(each, MappingNode)]
            if misplaced := [found for block in blocks for found in _misplaced(block, stage.argument_names())]:
                raise PipelineError(misplaced)
        return _call(registered, written, arguments, item)
    raise PipelineError(replace(each, message=f"{written}: {each.message}") for each in problems)


def _call(name: str, written: str, arguments: Node | None, node: Node) -> StageCall:
    _, stage = registry.find(name)
    if arguments is None:
        arguments = MappingNode((), node.line, node.column)
    return StageCall(name, written, bind_list(stage, arguments, stage.positional, stage.rest), node)
