"""Pipelines that define functions inline (`python_extensions.stages`), and the Python scripts generated from both."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from core.definitions.agents.validation import describe_problems
from core.definitions.python_extensions.validation import ExtensionFunction, validate_function
from core.errors import BadInput, Conflict, Detail
from core.infra.validation import exceeds_depth
from core.tables import PythonExtension
from pipelines.errors import PipelineError
from pipelines.language import nodes as document
from pipelines.language.names import normalize
from pipelines.language.nodes import Plain, to_node
from pipelines.pipeline import Pipeline
from pipelines.planning.script import make_script_of
from pipelines.transforms import source as texts
from pipelines.transforms.transform import Transforms

INLINE = "python_extensions.stages"
_NOT_IN_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ufffe\uffff]")  # allowed unescaped in JSON, but not in YAML


@dataclass(frozen=True, slots=True)
class ProcessedPipeline:
    """The functions that a pipeline defines inline, and its script; `code` is None for a text without a pipeline."""

    functions: Sequence[ExtensionFunction]
    warnings: Sequence[str]
    code: str | None


def process_pipeline(text: str) -> ProcessedPipeline:
    """Read a pipeline with inline functions; raise BadInput with lines and names when either is invalid."""
    try:
        root = document.parse(text)
        functions = _read_inline_functions(root.to_plain())
        if isinstance(root, document.MappingNode) and root.get("pipeline") is None:
            return ProcessedPipeline(functions, (), None)
        transforms = Transforms({each.name: each.source for each in functions})
        warnings = Pipeline(root).check(transforms)
    except PipelineError as error:
        raise describe_problems(error) from error
    return ProcessedPipeline(functions, [str(each) for each in warnings], make_script_of(root, {}))


def write_pipeline(pipeline: Mapping[str, object]) -> str:
    """Return the YAML of a pipeline sent as a JSON object; raise ValueError when it is nested too deeply."""
    if exceeds_depth(document.MAX_DEPTH, pipeline):
        raise ValueError(f"a pipeline is nested at most {document.MAX_DEPTH} deep")
    text = json.dumps(pipeline, ensure_ascii=False)
    return _NOT_IN_YAML.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def generate_script(extension: PythonExtension) -> str:
    """Return a script that calls the function for every row of a CSV file, with arguments from the environment.

    Raise Conflict when the source, stored under older rules, is no longer valid.
    """
    try:
        required = texts.read_function(extension.name, extension.source).keywords.required
    except PipelineError as error:
        sentence = f"The function '{extension.name}' cannot be used any more: {error.problems[0]}"
        details = [Detail("function", str(problem), problem.code) for problem in error.problems]
        raise Conflict(sentence, details) from error
    stages: list[Plain] = [
        {"stage": "load_csv", "args": {"path": "${INPUT_PATH}", "header": True}},
        {
            "stage": f"python_row_transform:{extension.name}",
            "args": {name: f"${{ARG_{name}}}" for name in required},
        },
    ]
    return make_script_of(to_node({"pipeline": stages}), {extension.name: extension.source})


def _read_inline_functions(root: Plain) -> Sequence[ExtensionFunction]:
    """Return the valid functions; raise BadInput that lists the problems of all others."""
    functions: list[ExtensionFunction] = []
    problems: list[Detail] = []
    first_names: dict[str, str] = {}
    for name, value in _find_inline_section(root).items():
        first = first_names.setdefault(normalize(name), name)
        if first != name:
            sentence = f"'{name}' and '{first}' are one name: case and underscores do not count."
            problems.append(Detail(f"{INLINE}.{name}", sentence, "name-taken"))
            continue
        fields = value if isinstance(value, dict) else {}
        type = fields.get("type")
        try:
            function = validate_function(fields.get("function"), name, None if type is None else str(type))
            functions.append(function)
        except BadInput as error:
            problems += [Detail(f"{INLINE}.{name}.{each.path}", each.message, each.code) for each in error.details]
    if problems:
        sentence = f"A Python extension cannot be used: {problems[0].path}: {problems[0].message}"
        raise BadInput(sentence, problems)
    return functions


def _find_inline_section(root: Plain) -> Mapping[str, Plain]:
    """Return the map at `python_extensions.stages`, empty when a level of it is missing.

    A root that is no map has no functions; checking the pipeline reports it.
    """
    section = root if isinstance(root, dict) else {}
    path = ""
    for key in INLINE.split("."):
        path = f"{path}.{key}" if path else key
        value = section.get(key)
        if value is not None and not isinstance(value, dict):
            sentence = f"'{path}' is not a map: functions stand in '{INLINE}' by name."
            raise BadInput(sentence, path=path)
        section = value or {}
    return section
