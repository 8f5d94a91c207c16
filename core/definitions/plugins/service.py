"""Operations on plugins: upload, installations, switching on and off, and the parts for pipelines."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from pydantic import ConfigDict
from sqlalchemy import select
from sqlalchemy.orm import Session

from core.definitions.identity.api_keys import Identity
from core.definitions.identity.organizations import get_organization, is_shared
from core.definitions.plugins.models import (
    InstallationChanges,
    InstallationCreate,
    Manifest,
)
from core.definitions.plugins.repository import AdminRepository, PluginRepository, is_disabled
from core.definitions.plugins.scope import INSTALLED, read_manifest
from core.errors import BadInput, Forbidden, NotFound
from core.infra.records import RECORD
from core.infra.settings import Settings
from core.infra.settings.pipelines import PluginSettings
from core.tables import Organization, PluginBuild, PluginInstallation
from pipelines.listing import StageListing, list_all_stages
from pipelines.registry import load_plugins

AddAgents = Callable[[Session, str], None]
"""Adds the agents of its plugins to an organization, which packages above this one know."""


@dataclass(frozen=True, slots=True)
class PluginRecord:
    """A plugin as an organization sees it."""

    __pydantic_config__: ClassVar[ConfigDict] = RECORD
    plugin_id: str
    """Name of the plugin."""
    build_type: str
    """Kind of the build, such as release; `installed` for a plugin of the service's own environment."""
    build_number: int
    """Number of the build; 0 for an installed plugin."""
    version: str
    """Version of its package."""
    description: str
    enabled: bool
    """Whether the organization's pipelines may use it."""
    stages: list[str]
    """Names of its stages."""
    error: str | None
    """Why it does not load; null where it does."""


def list_plugins(session: Session, caller: Identity, build_type: str | None = None) -> Sequence[PluginRecord]:
    """Return the plugins of the environment, then the organization's builds, with their errors."""
    plugins = AdminRepository(session, caller)
    disabled = plugins.list_disabled()
    found = [*_list_installed({each.plugin_id for each in disabled if each.build_type in ("", INSTALLED)})]
    for installation, build in plugins.list_installations():
        manifest = read_manifest(build)
        off = is_disabled(disabled, build.plugin_id, build.build_type)
        found.append(
            PluginRecord(
                build.plugin_id,
                build.build_type,
                build.build_number,
                build.version,
                manifest.description,
                installation.enabled and not off,
                [each.name for each in manifest.stages],
                build.error,
            )
        )
    return [each for each in found if build_type in (None, each.build_type)]


def _list_installed(disabled: set[str]) -> Generator[PluginRecord]:
    plugins = load_plugins()
    stages = list_all_stages()
    for each in plugins.loaded:
        own = [stage.name for stage in stages if stage.plugin == each.name]
        errors = [failure.error for failure in plugins.failures if failure.plugin == each.name]
        is_on = each.name not in disabled
        error = "; ".join(errors) or None
        yield PluginRecord(each.name, INSTALLED, 0, each.version, each.plugin.description, is_on, own, error)
    loaded = {each.name for each in plugins.loaded}
    for failure in plugins.failures:
        if failure.plugin not in loaded:
            yield PluginRecord(failure.plugin, INSTALLED, 0, "", "", False, [], failure.error)


def list_uploaded_stages(session: Session, caller: Identity) -> Sequence[StageListing]:
    """Return the stages of the organization's uploaded plugins, from their manifests."""
    builds = PluginRepository(session, caller.organization_id).list_available()
    return [
        StageListing(each.name, each.description, build.plugin_id, each.aliases, each.arguments, each.guide)
        for build in builds
        for each in read_manifest(build).stages
    ]


def switch(session: Session, caller: Identity, plugin_id: str, build_type: str | None, *, enabled: bool) -> None:
    """Enable or disable a plugin for the caller's organization, or by a super_admin for all."""
    if all(each.plugin_id != plugin_id for each in list_plugins(session, caller, build_type)):
        raise NotFound("There is no plugin with this id and build type.")
    plugins = AdminRepository(session, caller)
    if enabled:
        plugins.enable(plugin_id, build_type)
    else:
        plugins.disable(plugin_id, build_type)


def list_installations(
    session: Session, caller: Identity, organization_id: str | None, *, enabled_only: bool
) -> Sequence[tuple[PluginInstallation, PluginBuild]]:
    """Return the installations that the caller may see, of one organization where it is named."""
    plugins = AdminRepository(session, caller)
    if organization_id is not None and organization_id != caller.organization_id:
        plugins.check_organizations([organization_id])
        found = PluginRepository(session, organization_id).list_installations()
    else:
        found = plugins.list_installations()
    return [(each, build) for each, build in found if each.enabled or not enabled_only]


def get_installation(
    session: Session, caller: Identity, installation_id: int
) -> tuple[PluginInstallation, PluginBuild]:
    return AdminRepository(session, caller).get_installation(installation_id)


def create_installation(
    session: Session, settings: Settings, caller: Identity, new: InstallationCreate, add_agents: AddAgents
) -> tuple[PluginInstallation, PluginBuild]:
    """Install an uploaded build for organizations; raise BadInput for an unknown one."""
    plugins = AdminRepository(session, caller)
    key = (new.plugin_id, new.build_type, new.build_number)
    build = plugins.find_owned_build(*key)
    if build is None:
        sentence = "There is no plugin of this id, build type and build number. Upload it first."
        raise BadInput(sentence, code="unknown-plugin", path="pluginId")
    organizations = plugins.check_organizations(new.list_organizations() or [])
    check_consent(session, settings.plugins, read_manifest(build), organizations)
    installation = plugins.install(build, organizations)
    _change(plugins, installation, new)
    add_agents_of(session, organizations, add_agents)
    return installation, build


def add_agents_of(session: Session, organizations: Sequence[str], add_agents: AddAgents) -> None:
    """Add the agents of their plugins to these organizations; none means all."""
    for each in organizations or session.scalars(select(Organization.id)).all():
        add_agents(session, each)


def update_installation(
    session: Session, settings: Settings, caller: Identity, installation_id: int, changes: InstallationChanges
) -> tuple[PluginInstallation, PluginBuild]:
    plugins = AdminRepository(session, caller)
    installation, build = plugins.get_changeable(installation_id)
    named = changes.list_organizations()
    if named is not None:
        organizations = plugins.check_organizations(named)
        check_consent(session, settings.plugins, read_manifest(build), organizations)
        installation.organization_ids = organizations
    _change(plugins, installation, changes)
    return installation, build


def _change(plugins: AdminRepository, installation: PluginInstallation, changes: InstallationChanges) -> None:
    columns = changes.to_columns()
    for name in ("plugin_type", "description"):
        if name in columns:
            setattr(installation, name, columns[name])
    plugins.set_enabled(installation, installation.enabled if changes.enabled is None else changes.enabled)


def enable_installation(session: Session, caller: Identity, installation_id: int, *, enabled: bool) -> None:
    plugins = AdminRepository(session, caller)
    plugins.set_enabled(plugins.get_changeable(installation_id)[0], enabled)


def delete_installation(session: Session, caller: Identity, installation_id: int) -> None:
    """Delete the installation; the uploaded build stays."""
    installation, _ = AdminRepository(session, caller).get_changeable(installation_id)
    session.delete(installation)


def check_consent(session: Session, settings: PluginSettings, manifest: Manifest, organizations: Sequence[str]) -> None:
    """Raise Forbidden where the operator has not allowed an organization's uploaded plugins to run in drivers."""
    if manifest.runs_in_driver and not has_consent(session, settings, organizations):
        sentence = (
            "The plugin has stages, trace actions or methods, which run in drivers. "
            "The operator allows that for an organization with SPINDLE_PLUGIN_STAGES."
        )
        raise Forbidden(sentence, code="no-consent", path="organizationIds")


def has_consent(session: Session, settings: PluginSettings, organizations: Sequence[str]) -> bool:
    """Return whether parts of plugins that these organizations have uploaded may run in drivers; none means all."""
    allowed = settings.stages
    if allowed is None:
        return not is_shared(session)
    slugs = [get_organization(session, each).slug for each in organizations] or ["*"]
    return "*" in allowed or {*slugs} <= {*allowed}
