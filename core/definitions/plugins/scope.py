"""The parts of plugins that pipelines of an organization may use: disabled ones, and parts of uploaded ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sqlalchemy.orm import Session

from core.definitions.plugins.models import Manifest
from core.definitions.plugins.repository import PluginRepository
from core.tables import PluginBuild
from core.tables.executions import FrozenPlugin
from pipelines.errors import PipelineError
from pipelines.language.names import normalize
from pipelines.plugin import PluginScope

_KINDS = {"unknown-method": "method", "unknown-action": "action"}
_NOT_USABLE = "the {} '{}' is of the uploaded plugin {}, of which pipelines use stages and row transforms only"
INSTALLED = "installed"  # the build type of plugins that the operator has installed into the environment


@dataclass(frozen=True, slots=True)
class OrganizationPlugins:
    """The scope for planning, and the texts of uploaded row transforms, which run as users' functions do.

    `builds` are the uploaded plugins by the normalized names of their stages.
    """

    scope: PluginScope
    transforms: Mapping[str, str]
    builds: Mapping[str, FrozenPlugin]

    def add_transforms(self, own: Mapping[str, str]) -> dict[str, str]:
        """Return an agent's own row transforms, then those of plugins that have other names."""
        taken = {normalize(name) for name in own}
        return {**own, **{name: text for name, text in self.transforms.items() if normalize(name) not in taken}}


def load_scope(session: Session, organization_id: str) -> OrganizationPlugins:
    """Return the parts of plugins that an organization may use now."""
    plugins = PluginRepository(session, organization_id)
    disabled = {each.plugin_id for each in plugins.list_disabled() if each.build_type in ("", INSTALLED)}
    builds: dict[str, FrozenPlugin] = {}
    transforms: dict[str, str] = {}
    for build in plugins.list_available():
        manifest = read_manifest(build)
        names = [spelling for each in manifest.stages for spelling in each.spellings]
        builds |= dict.fromkeys(map(normalize, names), FrozenPlugin(build.plugin_id, build.digest, build.file_name))
        transforms.update({each.name: each.source for each in manifest.transforms})
    return OrganizationPlugins(PluginScope(frozenset(disabled), frozenset(builds)), transforms, builds)


def explain_unusable_parts(session: Session, organization_id: str, error: PipelineError) -> PipelineError:
    """Return the error, in which unknown methods and actions of uploaded plugins are said to be theirs."""
    if not any(each.code in _KINDS for each in error.problems):
        return error
    owners: dict[tuple[str, str], str] = {}
    for build in PluginRepository(session, organization_id).list_available():
        manifest = read_manifest(build)
        for code, names in (("unknown-method", manifest.methods), ("unknown-action", manifest.actions)):
            owners |= {(code, normalize(name)): build.plugin_id for name in names}
    return PipelineError(
        replace(each, message=_NOT_USABLE.format(_KINDS[each.code], each.name, owner))
        if (owner := owners.get((each.code, normalize(each.name))))
        else each
        for each in error.problems
    )


def read_manifest(build: PluginBuild) -> Manifest:
    return Manifest.model_validate(build.manifest)
