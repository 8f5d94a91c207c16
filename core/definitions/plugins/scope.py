"""The parts of plugins that pipelines of an organization may use: disabled ones, and parts of uploaded ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy.orm import Session

from core.definitions.plugins.models import Manifest
from core.definitions.plugins.repository import PluginRepository
from core.tables import PluginBuild
from core.tables.executions import FrozenPlugin
from pipelines.language.names import normalize
from pipelines.language.plugin_scope import PluginScope, UploadedPart

INSTALLED = "installed"  # the build type of plugins that the operator has installed into the environment


@dataclass(frozen=True, slots=True)
class OrganizationPlugins:
    """The scope for planning, and the texts of uploaded row transforms, which run as users' functions do.

    `builds` are the uploaded plugins by the parts that run in drivers.
    """

    scope: PluginScope
    transforms: Mapping[str, str]
    builds: Mapping[UploadedPart, FrozenPlugin]

    def add_transforms(self, own: Mapping[str, str]) -> dict[str, str]:
        """Return an agent's own row transforms, then those of plugins that have other names."""
        taken = {normalize(name) for name in own}
        return {**own, **{name: text for name, text in self.transforms.items() if normalize(name) not in taken}}


def load_scope(session: Session, organization_id: str) -> OrganizationPlugins:
    """Return the parts of plugins that an organization may use now."""
    plugins = PluginRepository(session, organization_id)
    disabled = {each.plugin_id for each in plugins.list_disabled() if each.build_type in ("", INSTALLED)}
    scope = PluginScope(frozenset(disabled))
    builds: dict[UploadedPart, FrozenPlugin] = {}
    transforms: dict[str, str] = {}
    for build in plugins.list_available():
        manifest = read_manifest(build)
        own = manifest.declare_parts()
        builds |= dict.fromkeys(own.list_parts(), FrozenPlugin(build.plugin_id, build.digest, build.file_name))
        scope = scope.add_parts(own)
        transforms.update({each.name: each.source for each in manifest.transforms})
    return OrganizationPlugins(scope, transforms, builds)


def read_manifest(build: PluginBuild) -> Manifest:
    return Manifest.model_validate(build.manifest)
