"""Operations on plugins: upload, installations, switching on and off, and the parts for pipelines."""

from __future__ import annotations

import json
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pydantic import ValidationError
from sqlalchemy.orm import Session

from core.definitions.identity.api_keys import Identity
from core.definitions.identity.organizations import get_organization, is_shared
from core.definitions.plugins.models import (
    InstallationChanges,
    InstallationCreate,
    Manifest,
    PluginUpload,
)
from core.definitions.plugins.repository import AdminRepository, PluginRepository, is_disabled
from core.definitions.plugins.scope import INSTALLED, read_manifest
from core.errors import BadInput, Conflict, Forbidden, NotFound, Unavailable
from core.infra.database import Database
from core.infra.settings import Settings
from core.infra.storage.protocol import MANIFEST, NotStored, Storage, plugin_key
from core.infra.validation import is_storable
from core.infra.wheels import Wheel, unpack_wheel, unwrap
from core.tables import PluginBuild, PluginInstallation
from pipelines.errors import RunError
from pipelines.language.names import normalize
from pipelines.listing import StageListing, list_all_stages
from pipelines.manifest import make_manifest
from pipelines.plugin import GROUP, PLUGIN_NAME
from pipelines.registry import load_plugins
from pipelines.transforms.sandbox import NotIsolated


@dataclass(frozen=True, slots=True)
class PluginEntry:
    """A plugin as an organization sees it."""

    plugin_id: str
    build_type: str
    build_number: int
    version: str
    description: str
    enabled: bool
    stages: Sequence[str]
    error: str | None


def list_plugins(session: Session, caller: Identity, build_type: str | None = None) -> Sequence[PluginEntry]:
    """Return the plugins of the environment, then the organization's builds, with their errors."""
    plugins = AdminRepository(session, caller)
    disabled = plugins.list_disabled()
    found = [*_list_installed({each.plugin_id for each in disabled if each.build_type in ("", INSTALLED)})]
    for installation, build in plugins.list_installations():
        manifest = read_manifest(build)
        off = is_disabled(disabled, build.plugin_id, build.build_type)
        found.append(
            PluginEntry(
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


def _list_installed(disabled: set[str]) -> Generator[PluginEntry]:
    plugins = load_plugins()
    stages = list_all_stages()
    for each in plugins.loaded:
        own = [stage.name for stage in stages if stage.plugin == each.name]
        errors = [failure.error for failure in plugins.failures if failure.plugin == each.name]
        is_on = each.name not in disabled
        error = "; ".join(errors) or None
        yield PluginEntry(each.name, INSTALLED, 0, each.version, each.plugin.description, is_on, own, error)
    loaded = {each.name for each in plugins.loaded}
    for failure in plugins.failures:
        if failure.plugin not in loaded:
            yield PluginEntry(failure.plugin, INSTALLED, 0, "", "", False, [], failure.error)


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
    session: Session, settings: Settings, caller: Identity, new: InstallationCreate
) -> tuple[PluginInstallation, PluginBuild]:
    """Install an uploaded build for organizations; raise BadInput for an unknown one."""
    plugins = AdminRepository(session, caller)
    key = (new.plugin_id, new.build_type, new.build_number)
    build = plugins.find_owned_build(*key)
    if build is None:
        sentence = "There is no plugin of this id, build type and build number. Upload it first."
        raise BadInput(sentence, code="unknown-plugin", path="pluginId")
    organizations = plugins.check_organizations(new.list_organizations() or [])
    check_consent(session, settings, read_manifest(build), organizations)
    installation = plugins.install(build, organizations)
    _change(plugins, installation, new)
    return installation, build


def update_installation(
    session: Session, settings: Settings, caller: Identity, installation_id: int, changes: InstallationChanges
) -> tuple[PluginInstallation, PluginBuild]:
    plugins = AdminRepository(session, caller)
    installation, build = plugins.get_changeable(installation_id)
    named = changes.list_organizations()
    if named is not None:
        organizations = plugins.check_organizations(named)
        check_consent(session, settings, read_manifest(build), organizations)
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


def check_consent(session: Session, settings: Settings, manifest: Manifest, organizations: Sequence[str]) -> None:
    """Raise Forbidden where the operator has not allowed an organization's uploaded plugins to run in drivers."""
    if manifest.runs_in_driver and not has_consent(session, settings, organizations):
        sentence = (
            "The plugin has stages, trace actions or methods, which run in drivers. "
            "The operator allows that for an organization with SPINDLE_PLUGIN_STAGES."
        )
        raise Forbidden(sentence, code="no-consent", path="organizationIds")


def has_consent(session: Session, settings: Settings, organizations: Sequence[str]) -> bool:
    """Return whether parts of plugins that these organizations have uploaded may run in drivers; none means all."""
    allowed = settings.plugin_stages
    if allowed is None:
        return not is_shared(session)
    slugs = [get_organization(session, each).slug for each in organizations] or ["*"]
    return "*" in allowed or {*slugs} <= {*allowed}


class PluginUploads:
    """Takes uploaded plugins, which are checked, described by an isolated process, and stored whole or not at all."""

    def __init__(self, settings: Settings, database: Database, storage: Storage) -> None:
        self._settings, self._database, self._storage = settings, database, storage

    @contextmanager
    def open_scratch(self) -> Generator[Path]:
        """Make a folder for an upload, which the isolated process can read."""
        parent = self._settings.data / "plugins"
        parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with TemporaryDirectory(dir=parent, ignore_cleanup_errors=True) as folder:
            Path(folder).chmod(0o755)
            yield Path(folder)

    def store(self, caller: Identity, upload: PluginUpload, source: Path, folder: Path) -> PluginBuild:
        """Store an uploaded file as a build, and install it; the same file again changes nothing.

        Raise BadInput or TooLarge for a file that is no usable plugin, Forbidden without the operator's consent,
        Conflict for a name or a build that is taken.
        """
        _check_upload(upload)
        with self._database.read() as session:
            AdminRepository(session, caller).check_organizations(upload.organization_ids)
        wheel_file, name = unwrap(source, upload.file_name, folder)
        package = folder / "package"
        package.mkdir(mode=0o755)
        wheel = unpack_wheel(wheel_file, name, package)
        main_class = _find_main_class(wheel, upload.plugin_id)
        manifest = _describe(upload.plugin_id, main_class, package)
        with self._database.write() as session:
            plugins = AdminRepository(session, caller)
            known = plugins.find_owned_build(upload.plugin_id, upload.build_type, upload.build_number)
            if known is not None:
                if known.digest == wheel.digest:
                    return known
                sentence = "Another file was uploaded as this build of the plugin. Upload it with a new buildNumber."
                raise Conflict(sentence, code="plugin-exists", path="buildNumber")
            organizations = plugins.check_organizations(upload.organization_ids)
            check_consent(session, self._settings, manifest, organizations)
            _check_names(plugins, upload.plugin_id, manifest)
            described = manifest.model_dump(mode="json")
            with wheel_file.open("rb") as content:
                self._storage.put(plugin_key(wheel.digest, wheel.file_name), content)
            self._storage.put(plugin_key(wheel.digest, MANIFEST), BytesIO(json.dumps(described).encode()))
            build = PluginBuild(
                organization_id=plugins.owner_id,
                plugin_id=upload.plugin_id,
                build_type=upload.build_type,
                build_number=upload.build_number,
                version=wheel.version,
                digest=wheel.digest,
                file_name=wheel.file_name,
                main_class=main_class,
                manifest=described,
            )
            session.add(build)
            session.flush()
            plugins.install(build, organizations)
            return build

    def reload(self, caller: Identity) -> tuple[int, int]:
        """Renew the manifests of the caller's installed builds; return how many there are, and how many failed."""
        with self._database.read() as session:
            builds = {build.id: build for _, build in AdminRepository(session, caller).list_installations()}
        made = {build_id: self._describe_stored(build) for build_id, build in builds.items()}
        with self._database.write() as session:
            for build_id, (manifest, error) in made.items():
                build = session.get_one(PluginBuild, build_id)
                build.error = error
                if manifest is not None:
                    build.manifest = manifest
        return len(made), sum(error is not None for _, error in made.values())

    def _describe_stored(self, build: PluginBuild) -> tuple[dict[str, Any] | None, str | None]:
        """Return the manifest of a stored build, or the reason why there is none."""
        with self.open_scratch() as folder:
            package = folder / "package"
            package.mkdir(mode=0o755)
            source = folder / "plugin.whl"
            try:
                with self._storage.open(plugin_key(build.digest, build.file_name)) as stored:
                    source.write_bytes(stored.read())
                unpack_wheel(source, build.file_name, package)
                return _describe(build.plugin_id, build.main_class, package).model_dump(mode="json"), None
            except NotStored:
                return None, "Its file is missing in the storage. Upload it again."
            except BadInput as error:
                return None, error.sentence


def _check_upload(upload: PluginUpload) -> None:
    if not PLUGIN_NAME.fullmatch(upload.plugin_id):
        sentence = "'pluginId' begins with a small letter, and has only small letters, digits, '-' and '_'."
        raise BadInput(sentence, path="pluginId")
    if not upload.build_type or not is_storable(upload.build_type) or upload.build_type == INSTALLED:
        raise BadInput(f"'buildType' is a name such as release, and not '{INSTALLED}'.", path="buildType")


def _find_main_class(wheel: Wheel, plugin_id: str) -> str:
    """Return the plugin's object as `module:name`: the entry point of this name, or the only one."""
    points = wheel.entry_points.get(GROUP, {})
    found = points.get(plugin_id) or (next(iter(points.values())) if len(points) == 1 else None)
    if found is None:
        sentence = f"The wheel has no entry point '{plugin_id}' in the group {GROUP}: see docs/plugins.md."
        raise BadInput(sentence, code="invalid-plugin", path="file")
    return found


def _describe(plugin_id: str, main_class: str, package: Path) -> Manifest:
    try:
        return Manifest.model_validate(make_manifest(plugin_id, main_class, package))
    except NotIsolated as error:
        sentence = f"This machine cannot isolate a process, which uploaded plugins need ({error.reason})."
        raise Unavailable(sentence, code="no-isolation") from error
    except RunError as error:
        raise BadInput(f"The plugin does not load: {error}", code="invalid-plugin", path="file") from error
    except ValidationError as error:
        raise BadInput("The plugin has too many or too long names.", code="invalid-plugin", path="file") from error


def _check_names(plugins: AdminRepository, plugin_id: str, manifest: Manifest) -> None:
    """Raise Conflict for a name that another plugin has."""
    loaded = {each.name for each in load_plugins().loaded}
    if plugin_id in loaded:
        sentence = f"A plugin '{plugin_id}' is installed already."
        raise Conflict(sentence, code="name-taken", path="pluginId")
    claimed = manifest.list_names()
    taken = {
        ("stage", normalize(spelling)): each.plugin
        for each in list_all_stages()
        for spelling in (each.name, *each.aliases)
    }
    for _, build in plugins.list_installations():
        if build.plugin_id != plugin_id:
            taken |= dict.fromkeys(read_manifest(build).list_names(), build.plugin_id)
    for kind, name in sorted(claimed & taken.keys()):
        sentence = f"The {kind} '{name}' is of the plugin {taken[kind, name]} already. Rename it."
        raise Conflict(sentence, code="name-taken", path="file")
