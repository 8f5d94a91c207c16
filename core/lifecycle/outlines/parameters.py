"""The parameters of a job with their defaults and types, for those who execute it by hand."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from core.lifecycle.executions.parameters import BUILT_IN, OUTPUT_PREFIX, Value
from pipelines.language.parameters import write_value

Defaults = Mapping[str, object]
NO_VALUE = "It has no value in the job, the project or the pipeline."


@dataclass(frozen=True, slots=True)
class ParameterOutline:
    """A parameter of a job; `type` is that of its value in the job or the project, None for any text or number."""

    name: str
    description: str
    default: Value | None = None
    type: type[Value] | None = None

    def convert(self, value: Value) -> Value:
        """Return a value that the pipeline gets as the same text, of the parameter's type where there is one."""
        text = write_value(value)
        if self.type is str:
            return text
        if self.type is None or not isinstance(value, str):
            return value
        try:
            typed = json.loads(text)
        except ValueError:
            return value
        return typed if type(typed) is self.type and write_value(typed) == text else value


def outline_parameters(
    declared: Iterable[tuple[str, str | None]], job: Defaults, project: Defaults, keyed: Collection[str]
) -> tuple[ParameterOutline, ...]:
    """Return the parameters of a pipeline, named with their defaults in its text; the key of a partition sets `keyed`.

    A value of the job comes before one of the project, and both before the pipeline's, which every execution sets
    itself for the names that are built in.
    """
    sources = (("job", job), ("project", project))
    return tuple(_outline(name, text, sources) for name, text in declared if name not in keyed)


def _outline(name: str, text: str | None, sources: Sequence[tuple[str, Defaults]]) -> ParameterOutline:
    for source, values in sources:
        if isinstance(value := values.get(name), Value):
            return ParameterOutline(name, f"The default is that of the {source}.", value, type(value))
    if name in BUILT_IN or name.startswith(OUTPUT_PREFIX):
        return ParameterOutline(name, "Each execution sets it by default.")
    if text is None:
        return ParameterOutline(name, NO_VALUE)
    return ParameterOutline(name, "The default is that of the pipeline.", text)
