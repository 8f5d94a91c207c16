"""Reader: builds the frozen model of a pipeline from its nodes and collects all problems on the way."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import dropwhile
from typing import TypeVar

from pydantic import ValidationError

from pipelines.errors import MAX_PROBLEMS, TOO_MANY_PROBLEMS, PipelineError, Problem
from pipelines.fetch.requests import RequestArguments
from pipelines.language.arguments import bind, bind_list, describe_faults
from pipelines.language.formats import KEYED_MODES, Mode
from pipelines.language.names import describe_unknown, normalize, suggest, truncate_name
from pipelines.language.nodes import MappingNode, Node, ScalarNode, SequenceNode, list_children, locate_problem
from pipelines.language.plugin_scope import PluginScope, UploadedPart
from pipelines.planning.check import CHECKS, CheckCall
from pipelines.planning.model import Options, Output, PipelineModel, StageCall
from pipelines.planning.stage import CHUNK_DOCUMENT, CHUNK_ID, MissingStage, Render, find_stage
from pipelines.registry import UnknownName

Block = TypeVar("Block")

_KEYS = ("fetch", "pipeline", "output", "spindle", "checks")
_VISIT_ARGUMENTS = ("traces", "images")
_REQUEST_ARGUMENTS = RequestArguments.list_argument_names()
_OPTIONS = {normalize(name): name for name in Options.list_argument_names() if name not in _REQUEST_ARGUMENTS}
_FOREIGN = {normalize("python_extensions")}
_SEEDS = {normalize(name) for name in ("start_urls", "start_url", "urls", "seeds", "seed")}
_MOST_STAGES = 1000
# stages that use the browser after a fetch with traces
_BROWSER_STAGES = {"join": "visitJoin", "explore": "visitExplore"}


class _Problems(list[Problem]):
    """Collected problems, so that all are reported together."""

    @contextmanager
    def collect(self, path: str = "") -> Generator[None]:
        """Collect the problems of a PipelineError raised inside, with `path` in front of theirs."""
        try:
            yield
        except PipelineError as error:
            self.extend(replace(each, path=_join_paths(path, each.path)) for each in error.problems)


def _join_paths(path: str, below: str) -> str:
    return path if not below else below if not path else f"{path}{below}" if below[0] == "[" else f"{path}.{below}"


def _make_error(node: Node, code: str, message: str, path: str = "", may_come: bool = False) -> PipelineError:
    return PipelineError([locate_problem(node, code, message, path, may_come)])


def read_model(root: Node, plugins: PluginScope) -> PipelineModel:
    """Return the model of a whole document; raises PipelineError with every problem found."""
    if not isinstance(root, MappingNode):
        raise _make_error(root, "invalid-structure", "a pipeline is a map with the key 'pipeline', a list of stages")
    problems = _Problems()
    stages: list[StageCall] = []
    output, options = Output(), Options()
    checks: list[CheckCall] = []
    with problems.collect("fetch"):
        stages.extend(_read_optional(root, "fetch", partial(_read_fetch, plugins=plugins), ()))
    with problems.collect("pipeline"):
        stages.extend(_read_stages(root, bool(stages) and _uses_browser(stages[0]), plugins))
    with problems.collect("output"):
        output = _read_optional(root, "output", lambda node: bind(Output, _require_map(node, "output")), output)
    with problems.collect("spindle"):
        options = _read_optional(root, "spindle", lambda node: bind(Options, _require_map(node, "spindle")), options)
    with problems.collect("output"):
        output = _apply_incremental(root.get("output"), output, options)
    output = _cover_documents(output, stages)
    with problems.collect("checks"):
        checks.extend(_read_optional(root, "checks", _read_checks, ()))
    if problems:
        raise PipelineError(problems)
    return PipelineModel(tuple(stages), output, options, tuple(checks), root.get("pipeline") or root)


def _cover_documents(output: Output, stages: Iterable[StageCall]) -> Output:
    """Return the output of chunks, whose merge by `id` also removes the former chunks of the documents of the run.

    A stage after the chunks that keeps a number of rows may have cut a document.
    """
    after = list(dropwhile(lambda call: not call.stage.gives_chunks, stages))
    if output.mode is not Mode.MERGE or output.keys != (CHUNK_ID,) or output.within or not after:
        return output
    if any(call.stage.capabilities.max_rows is not None for call in after):
        return output
    return output.model_copy(update={"within": CHUNK_DOCUMENT})


def _apply_incremental(node: Node | None, output: Output, options: Options) -> Output:
    """Return the output of an incremental pipeline: it appends, or with keys merges, or is a history with these keys.

    Raises PipelineError.
    """
    incremental = options.incremental
    if incremental is None:
        return output
    mode = Mode.MERGE if incremental.keys else Mode.APPEND
    written = {name: getattr(output, name) for name in ("mode", "keys") if name in output.model_fields_set}
    if not incremental.keys and written.get("mode") in KEYED_MODES:
        return output
    mode = Mode.HISTORY if written.get("mode") is Mode.HISTORY else mode
    wanted = {"mode": mode, "keys": incremental.keys} if incremental.keys else {"mode": mode}
    for name, value in written.items():
        if value != wanted.get(name, ()):
            shown = value if name == "mode" else f"[{', '.join(value)}]"
            message = f"'{name}: {shown}' contradicts spindle.incremental, which means mode {mode}: leave it out"
            at = node.get(name) if isinstance(node, MappingNode) else None
            raise _make_error(at or node or ScalarNode("", 1, 1), "conflicting-arguments", message, name)
    try:
        return Output.model_validate(output.model_dump(by_alias=True, exclude_unset=True) | wanted)
    except ValidationError as error:
        raise _make_error(
            node or ScalarNode("", 1, 1), "unsupported-mode", describe_faults(Output, error)[0].message
        ) from None


def find_unknown_keys(root: Node) -> tuple[Problem, ...]:
    """Return warnings for the top-level keys that the engine ignores, except other generators' own."""
    if not isinstance(root, MappingNode):
        return ()
    unknown = [key for key, _ in root.entries if key.value not in _KEYS and normalize(str(key.value)) not in _FOREIGN]
    return tuple(
        locate_problem(
            key,
            "unknown-key",
            f"the key '{truncate_name(str(key.value))}' is ignored; {_suggest_key(root, str(key.value))}",
        )
        for key in unknown[:MAX_PROBLEMS]
    )


def _suggest_key(root: MappingNode, key: str) -> str:
    name = normalize(key)
    if name in _SEEDS:
        return "the first pages are 'fetch: {url: [...]}', or 'fetch: {file: ...}' with an address in each line"
    blocks = {
        "fetch": (*find_stage("visit")[1].list_argument_names(), *_VISIT_ARGUMENTS),
        "output": Output.list_argument_names(),
        "spindle": _OPTIONS,
        "pipeline": ("stage", "args"),
    }
    for block, names in blocks.items():
        if name in map(normalize, names):
            return f"it belongs in '{block}': indent it below that key"
    if similar := [each for each in suggest(key.casefold(), _KEYS) if root.get(each) is None]:
        return f"did you mean {similar[0]}?"
    return f"a pipeline has {', '.join(_KEYS)}"


def select_engine_keys(root: Node) -> Node:
    """Return the document without foreign top-level keys, whose texts may contain a `${NAME}` of another language."""
    if not isinstance(root, MappingNode):
        return root
    return replace(root, entries=tuple(entry for entry in root.entries if entry[0].value in _KEYS))


def _is_null(node: Node | None) -> bool:
    return node is None or (isinstance(node, ScalarNode) and node.value is None)


def _read_optional(root: MappingNode, key: str, read: Callable[[Node], Block], default: Block) -> Block:
    node = root.get(key)
    return default if node is None or _is_null(node) else read(node)


def _require_map(node: Node, name: str) -> MappingNode:
    if not isinstance(node, MappingNode):
        raise _make_error(node, "invalid-structure", f"'{name}' must be a map")
    return node


def _read_fetch(node: Node, plugins: PluginScope) -> tuple[StageCall, ...]:
    if isinstance(node, ScalarNode):
        sentence = "'fetch' must be a map: {url: https://...}"
        if node.value in (*Render,):
            sentence += f"; which pages the browser renders is 'spindle: {{render: {node.value}}}'"
        raise _make_error(node, "invalid-structure", sentence)
    block = _require_map(node, "fetch")
    in_browser = not _is_null(block.get("traces"))
    allowed = find_stage("visit" if in_browser else "fetch")[1].list_argument_names()
    allowed = tuple(dict.fromkeys((*allowed, *_VISIT_ARGUMENTS)))
    if misplaced := [*_find_misplaced_options(block, allowed)]:
        raise PipelineError(misplaced)
    for key, _ in block.entries:
        if key.value not in allowed:
            message = describe_unknown("argument", str(key.value), allowed)
            raise _make_error(key, "unknown-argument", message)
    if _is_null(block.get("url")) and _is_null(block.get("file")):
        raise _make_error(node, "missing-argument", "'url' is missing")
    if in_browser:
        return (replace(_bind_call("visit", "fetch", block, block, "fetch", plugins), name="fetch"),)
    plain = replace(block, entries=tuple(entry for entry in block.entries if entry[0].value not in _VISIT_ARGUMENTS))
    return (_bind_call("fetch", "fetch", plain, block, "fetch", plugins),)


def _read_checks(node: Node) -> tuple[CheckCall, ...]:
    if not isinstance(node, SequenceNode):
        raise _make_error(node, "invalid-structure", "'checks' must be a list: [{check: row_count, min: 1}]")
    problems = _Problems()
    calls: list[CheckCall] = []
    for position, item in enumerate(node.items):
        if len(problems) >= MAX_PROBLEMS:
            problems.append(locate_problem(item, "too-many-problems", TOO_MANY_PROBLEMS))
            break
        with problems.collect(f"[{position}]"):
            calls.append(_read_check(item, f"checks[{position}]"))
    if problems:
        raise PipelineError(problems)
    return tuple(calls)


def _read_check(item: Node, path: str) -> CheckCall:
    name = item.get("check") if isinstance(item, MappingNode) else None
    if not isinstance(item, MappingNode) or not isinstance(name, ScalarNode):
        message = "a check is a map with its name: {check: not_null, columns: [price]}"
        raise _make_error(item, "invalid-structure", message)
    try:
        entry = CHECKS.find(str(name.value))
    except UnknownName as error:
        raise _make_error(name, error.code, str(error), "check") from None
    arguments = replace(item, entries=tuple(each for each in item.entries if each[0].value != "check"))
    try:
        return CheckCall(entry.name, bind(entry.thing, arguments), item, path)
    except PipelineError as error:
        raise PipelineError(replace(each, message=f"{entry.name}: {each.message}") for each in error.problems) from None


def _find_misplaced_options(block: MappingNode, allowed: Iterable[str]) -> Iterator[Problem]:
    """Find options of the whole pipeline among the arguments of a stage."""
    known = {normalize(name) for name in allowed}
    for key, _ in block.entries:
        name = _OPTIONS.get(normalize(str(key.value)))
        if name and normalize(name) not in known:
            message = f"{name} is set for the whole pipeline, in its key 'spindle'"
            if name == "render":
                message = "render is set on fetch, join and explore, or in the key 'spindle'; a visit always renders"
            yield locate_problem(key, "misplaced-option", message)


def _uses_browser(call: StageCall) -> bool:
    return call.stage.fetching.browsing is not None


def _read_stages(root: MappingNode, in_browser: bool, plugins: PluginScope) -> Iterator[StageCall]:
    node = root.get("pipeline")
    if node is None:
        raise _make_error(root, "missing-key", "the key 'pipeline' is missing: a list of stages")
    if not isinstance(node, SequenceNode):
        raise _make_error(node, "invalid-structure", "'pipeline' must be a list of stages")
    if len(node.items) > _MOST_STAGES:
        message = f"a pipeline has at most {_MOST_STAGES:,} stages"
        raise _make_error(node.items[_MOST_STAGES], "too-many-stages", message)
    problems = _Problems()
    calls: list[StageCall] = []
    for position, item in enumerate(node.items):
        if len(problems) >= MAX_PROBLEMS:
            problems.append(locate_problem(item, "too-many-problems", TOO_MANY_PROBLEMS))
            break
        with problems.collect(f"[{position}]"):
            call = _read_stage(item, in_browser, f"pipeline[{position}]", plugins)
            before = call.stage.list_stages_before()
            calls.extend(replace(call, name=name, written=name, stage=stage) for name, stage in before)
            calls.append(call)
    if problems:
        raise PipelineError(problems)
    yield from calls


def _read_stage(item: Node, in_browser: bool, path: str, plugins: PluginScope) -> StageCall:
    if not isinstance(item, MappingNode):
        raise _make_error(item, "invalid-structure", "a stage is a map with 'stage' and 'args'")
    for key, _ in item.entries:
        if key.value not in ("stage", "args"):
            message = f"unknown key '{key.value}'; a stage has only 'stage' and 'args'"
            raise _make_error(key, "unknown-key", message)
    name = item.get("stage")
    if not isinstance(name, ScalarNode) or not isinstance(name.value, str):
        raise _make_error(name or item, "invalid-structure", "'stage' must be the name of a stage")
    in_text = name.value
    try:
        wanted = _BROWSER_STAGES.get(normalize(in_text), in_text) if in_browser else in_text
        registered, stage = find_stage(wanted, plugins)
    except UnknownName as error:
        part = plugins.stages.get(normalize(in_text))
        if part is None and not plugins.accepts(error.may_come):
            raise _make_error(name, error.code, str(error), "stage", error.may_come) from None
        missing = MissingStage().mark_uploaded(part or UploadedPart(in_text))
        return StageCall(in_text, in_text, missing, item, path)
    if stage.takes_name and not registered.partition(":")[2]:
        base = registered.rstrip(":")
        raise _make_error(name, "missing-name", f"{base} needs the name of a function: {base}:NAME", "stage")
    written = registered if stage.takes_name else in_text
    problems = _Problems()
    with problems.collect("args"):
        arguments = item.get("args")
        if not stage.takes_name:
            blocks = [each for each in (arguments, *list_children(arguments or item)) if isinstance(each, MappingNode)]
            allowed = stage.list_argument_names()
            if misplaced := [found for block in blocks for found in _find_misplaced_options(block, allowed)]:
                raise PipelineError(misplaced)
        call = _bind_call(registered, written, arguments, item, path, plugins)
        return replace(call, stage=call.stage.use_browser()) if in_browser else call
    raise PipelineError(replace(each, message=f"{written}: {each.message}") for each in problems)


def _bind_call(
    name: str, written: str, arguments: Node | None, node: Node, path: str, plugins: PluginScope
) -> StageCall:
    _, stage = find_stage(name)
    if arguments is None:
        arguments = MappingNode((), node.line, node.column)
    return StageCall(name, written, bind_list(stage, arguments, stage.positional, stage.rest, plugins), node, path)
