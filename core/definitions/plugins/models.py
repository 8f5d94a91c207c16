"""The fields of plugins that requests set, and the manifest of an uploaded plugin."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from core.errors import BadInput
from core.infra.changes import Changes, example
from pipelines.language.names import normalize
from pipelines.language.plugin_scope import PluginScope, UploadedAction, UploadedMethod, UploadedPart

MAX_PARTS = 500
_IDS = TypeAdapter[list[str]](list[str])

ShortText = Annotated[str, Field(max_length=200)]
AgentName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.+ -]{0,99}$")]
AgentText = Annotated[str, Field(max_length=100_000)]


class PartEntry(BaseModel):
    """A part of a manifest by its names. Older manifests have methods and actions as texts, each a name."""

    name: ShortText
    aliases: Annotated[tuple[ShortText, ...], Field(max_length=20)] = ()

    @model_validator(mode="before")
    @classmethod
    def _read_name(cls, data: Any) -> Any:
        return {"name": data} if isinstance(data, str) else data

    @property
    def spellings(self) -> tuple[str, ...]:
        return (self.name, *self.aliases)


class StageEntry(PartEntry):
    """A stage of a manifest, with the JSON schema of its arguments, and the columns that it adds with their types."""

    description: Annotated[str, Field(max_length=10_000)] = ""
    arguments: dict[str, Any] = Field(default_factory=dict)
    guide: Annotated[str, Field(max_length=100_000)] = ""
    columns: Annotated[tuple[tuple[ShortText, ShortText], ...], Field(max_length=MAX_PARTS)] = ()

    def declare(self) -> UploadedPart:
        return UploadedPart(self.name)


class MethodEntry(PartEntry):
    """A method of a manifest, with the type of its column."""

    type: ShortText | None = None
    takes: ShortText | None = None
    reads_columns: bool = True

    def declare(self) -> UploadedMethod:
        return UploadedMethod(self.name, self.type, self.takes, self.reads_columns)


class ActionEntry(PartEntry):
    """A trace action of a manifest, with the names of its parameters."""

    parameters: Annotated[tuple[ShortText, ...], Field(max_length=MAX_PARTS)] | None = None
    required: Annotated[tuple[ShortText, ...], Field(max_length=MAX_PARTS)] = ()

    def declare(self) -> UploadedAction:
        return UploadedAction(self.name, self.parameters, self.required)


class TransformEntry(BaseModel):
    """A row transform of a manifest: its text runs as a user's function does."""

    name: ShortText
    source: Annotated[str, Field(max_length=64 * 1024)]


class Manifest(BaseModel):
    """The parts of an uploaded plugin; an isolated process has made it of untrusted code."""

    model_config = ConfigDict(extra="ignore")

    description: Annotated[str, Field(max_length=10_000)] = ""
    stages: Annotated[tuple[StageEntry, ...], Field(max_length=MAX_PARTS)] = ()
    actions: Annotated[tuple[ActionEntry, ...], Field(max_length=MAX_PARTS)] = ()
    methods: Annotated[tuple[MethodEntry, ...], Field(max_length=MAX_PARTS)] = ()
    transforms: Annotated[tuple[TransformEntry, ...], Field(max_length=MAX_PARTS)] = ()
    credentials: Annotated[tuple[ShortText, ...], Field(max_length=MAX_PARTS)] = ()
    pipelines: Annotated[Mapping[AgentName, AgentText], Field(max_length=MAX_PARTS)] = Field(default_factory=dict)
    unserved: Annotated[tuple[ShortText, ...], Field(max_length=10)] = ()

    @property
    def runs_in_driver(self) -> bool:
        """Whether the plugin has parts that run in a driver, and not in a sandbox."""
        return bool(self.stages or self.actions or self.methods)

    def list_names(self) -> frozenset[tuple[str, str]]:
        """Return the names that the plugin claims, by kind and normalized."""
        kinds = {"stage": self.stages, "trace action": self.actions, "extractor method": self.methods}
        pairs = [(kind, name) for kind, entries in kinds.items() for each in entries for name in each.spellings]
        pairs += [("row transform", each.name) for each in self.transforms]
        return frozenset((kind, normalize(name)) for kind, name in pairs)

    def declare_parts(self) -> PluginScope:
        """Return the parts that run in a driver, as the only ones of a scope."""
        return PluginScope(
            stages={normalize(name): each.declare() for each in self.stages for name in each.spellings},
            methods={normalize(name): each.declare() for each in self.methods for name in each.spellings},
            actions={normalize(name): each.declare() for each in self.actions for name in each.spellings},
        )


@dataclass(frozen=True, slots=True)
class PluginUpload:
    """The fields of an upload; `organization_ids` are those that get the plugin; empty for all."""

    plugin_id: str
    build_type: str
    build_number: int
    organization_ids: tuple[str, ...]
    file_name: str


class InstallationChanges(Changes):
    """The organizations, in either field, and the texts of an installation; others follow from the upload."""

    model_config = example({"description": "For the shops", "enabled": True})

    enabled: bool | None = None
    """Whether pipelines may use it."""
    organization_id: str | None = None
    """The organization that has the plugin; by default the caller's."""
    organization_ids_json: str | None = None
    """A JSON array of organizations as text. It wins over `organizationId`; an empty one means all."""
    plugin_type: str | None = None
    """Kind of the plugin, in words of the client's own."""
    description: str | None = None

    def list_organizations(self) -> Sequence[str] | None:
        """Return the named organizations; None when the fields are left out."""
        if self.organization_ids_json is None:
            return None if self.organization_id is None else [self.organization_id] if self.organization_id else []
        try:
            return _IDS.validate_python(json.loads(self.organization_ids_json or "[]"))
        except (ValueError, ValidationError) as error:
            sentence = "'organizationIdsJson' is a JSON array of ids as text."
            raise BadInput(sentence, path="organizationIdsJson") from error


class InstallationCreate(InstallationChanges):
    model_config = example({"pluginId": "weather", "buildType": "release", "buildNumber": 1})

    plugin_id: str
    """Name of the plugin."""
    build_type: str
    """Kind of the build, such as release."""
    build_number: int
    """Number of the build."""
