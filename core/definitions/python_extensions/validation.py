"""Checks of Python extensions. Their source is parsed, never run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from core.errors import BadInput, Detail
from core.infra.validation import check_name, check_storable
from core.tables.extensions import ROW_TRANSFORM
from pipelines.errors import PipelineError
from pipelines.language.names import normalize
from pipelines.transforms import ROW_TRANSFORMS
from pipelines.transforms import source as texts

TYPES = (ROW_TRANSFORM,)
_NOT_CALLABLE = re.compile(r"^\s|\s\Z|[\x00-\x1f\x7f-\x9f]|\$\{")


@dataclass(frozen=True, slots=True)
class ExtensionFunction:
    """A valid function that a pipeline can call by its name."""

    name: str
    type: str
    source: str


def validate_function(source: object, name: str | None = None, type: str | None = None) -> ExtensionFunction:
    """Return the function; raise BadInput with the line of every problem.

    Without a name, it takes the name of the only function in the source; without a type, it is a row transform.
    """
    if not isinstance(source, str):
        sentence = "A Python extension needs a 'function', which is text."
        raise BadInput(sentence, path="function", code="missing-field")
    check_storable("function", source)
    type = ROW_TRANSFORM if type is None else type
    check_storable("extensionType", type)
    known = next((each for each in TYPES if normalize(each) == normalize(type)), None)
    if known is None:
        sentence = f"There is no Python extension of the type '{type}'; there is {', '.join(TYPES)}."
        raise BadInput(sentence, path="extensionType")
    name = _find_only_name(source) if name is None else name
    check_name(name)
    if _NOT_CALLABLE.search(name):
        sentence = "'name' may have no '${', no control character and no white space at its ends."
        raise BadInput(sentence, path="name")
    try:
        texts.read_function(name, source)
    except PipelineError as error:
        raise _describe_problems(f"The function '{name}'", error) from error
    return ExtensionFunction(name, known, source)


def list_plugin_transforms() -> Sequence[str]:
    """Return the names of plugins' row transforms, which every pipeline may call."""
    return sorted(each.name for each in ROW_TRANSFORMS)


def _find_only_name(source: str) -> str:
    try:
        names = texts.list_functions(source)
    except PipelineError as error:
        raise _describe_problems("The function", error) from error
    if len(names) != 1:
        raise BadInput("A Python extension needs a 'name'.", path="name", code="missing-field")
    return names[0]


def _describe_problems(function: str, error: PipelineError) -> BadInput:
    details = [Detail("function", str(problem), problem.code) for problem in error.problems]
    return BadInput(f"{function} cannot be used: {details[0].message}", details)
