"""List of all stages, including those of plugins, as data for the REST API and user interfaces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from pipelines.browser.actions import ACTIONS
from pipelines.extract.extractors import METHODS
from pipelines.planning.stage import STAGES, Sink, Source, Stage
from pipelines.registry import ENGINE, Entry
from pipelines.transforms import ROW_TRANSFORMS, RowFunction
from pipelines.transforms.transform import describe_function

Schema = dict[str, Any]


@dataclass(frozen=True, slots=True)
class StageListing:
    """One stage; `arguments` is their JSON schema.

    In it `positional` is their order in a list, and `rest`, if any, the last of them, which takes all further items.
    """

    name: str
    description: str
    plugin: str
    aliases: tuple[str, ...]
    arguments: Schema
    guide: str

    @property
    def is_from_plugin(self) -> bool:
        return self.plugin != ENGINE


@cache
def list_all_stages() -> tuple[StageListing, ...]:
    """Return all stages by name; every row transform of a plugin is listed as a stage."""
    found = (*(_list_stage(entry) for entry in STAGES), *(_list_transform(entry) for entry in ROW_TRANSFORMS))
    return tuple(sorted(found, key=lambda each: each.name.casefold()))


def list_formats() -> tuple[Sequence[str], Sequence[str]]:
    """Return the file formats that stages read, and those that they write, as the stages name them."""
    return _list_formats(Source), _list_formats(Sink)


def _list_formats(base: type[Stage]) -> Sequence[str]:
    stages = (entry.thing for entry in STAGES if issubclass(entry.thing, base))
    return sorted({format_ for stage in stages if (format_ := getattr(stage, "format", None))})


def _list_stage(entry: Entry[type[Stage]]) -> StageListing:
    description, _, more = entry.doc.partition("\n\n")
    example = entry.thing.example.strip()
    guide = "\n\n".join(part for part in (more, f"```yaml\n{example}\n```" if example else "") if part)
    return StageListing(
        entry.name, _join_lines(description), entry.plugin, entry.aliases, _build_schema(entry.thing), guide
    )


def _build_schema(stage: type[Stage]) -> Schema:
    schema = stage.model_json_schema(by_alias=True)
    schema.pop("description", None)
    schema["positional"] = [*stage.positional, *([stage.rest] if stage.rest else [])]
    if stage.rest:
        schema["rest"] = stage.rest
    if stage.takes_name:  # the function has the other arguments
        schema["properties"].pop("keywords", None)
        schema |= {"additionalProperties": True, "positional": []}
    definitions: Schema = schema.get("$defs", {})
    if "Extractor" in definitions:
        definitions["Extractor"]["properties"]["method"]["examples"] = [each.name for each in METHODS]
    if "Action" in definitions:
        definitions["Action"] = {"oneOf": list(_list_action_schemas())}
    return schema


def _list_action_schemas() -> Iterator[Schema]:
    for entry in ACTIONS:
        parameters = entry.thing.model_json_schema(by_alias=True)
        properties = {"action": {"enum": list(entry.spellings)}, "params": parameters}
        yield {"type": "object", "properties": properties, "required": ["action"]}


def _list_transform(entry: Entry[RowFunction]) -> StageListing:
    name = f"python_row_transform:{entry.name}"
    description, _, more = entry.doc.partition("\n\n")
    keywords = describe_function(entry.name, entry.thing).keywords
    arguments = {
        "type": "object",
        "properties": {**{each: {} for each in keywords.names}, "onError": {"enum": ["row", "fail"], "default": "row"}},
        "required": list(keywords.required),
        "additionalProperties": keywords.others,
        "positional": [],
    }
    example = f"```yaml\n- stage: {name}\n  args: {{{', '.join(f'{each}: ...' for each in keywords.required)}}}\n```"
    guide = "\n\n".join(part for part in (more, example) if part)
    return StageListing(name, _join_lines(description), entry.plugin, (), arguments, guide)


def _join_lines(text: str) -> str:
    return " ".join(text.split())
