"""Uploads of plugins: checked, described by an isolated process, and stored whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pydantic import ValidationError

from core.definitions.identity.api_keys import Identity
from core.definitions.plugins.models import (
    Manifest,
    PluginUpload,
)
from core.definitions.plugins.repository import AdminRepository
from core.definitions.plugins.scope import INSTALLED, read_manifest
from core.definitions.plugins.service import AddAgents, add_agents_of, check_consent, has_consent
from core.errors import BadInput, Conflict, Forbidden, NotFound, Unavailable
from core.infra.database import Database
from core.infra.environments import open_environments
from core.infra.settings import Settings
from core.infra.storage.protocol import MANIFEST, NotStored, Storage, plugin_key
from core.infra.validation import is_storable
from core.infra.wheels import Wheel, unpack_wheel, unwrap
from core.tables import PluginBuild
from pipelines.browser.actions import ACTIONS
from pipelines.environments.packages import LOCK_SECONDS, find_missing_requirements
from pipelines.environments.uv import IndexUnavailable, InstallFailed
from pipelines.errors import PipelineError, RunError
from pipelines.extract.extractors import METHODS
from pipelines.language.names import normalize
from pipelines.language.plugin_scope import ALL_PLUGINS, PluginScope
from pipelines.manifest import check_transforms, make_manifest
from pipelines.pipeline import Pipeline
from pipelines.planning.stage import STAGES
from pipelines.plugin import GROUP, PLUGIN_NAME
from pipelines.registry import Registry, load_plugins
from pipelines.transforms.sandbox import NotIsolated

MOST_BUILDS = 100  # of an organization


class PluginUploads:
    """Takes uploaded plugins, which are checked, described by an isolated process, and stored whole or not at all."""

    def __init__(self, settings: Settings, database: Database, storage: Storage, add_agents: AddAgents) -> None:
        self._settings, self._database, self._storage = settings, database, storage
        self._add_agents = add_agents

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
            organizations = AdminRepository(session, caller).check_organizations(upload.organization_ids)
            may_install = has_consent(session, self._settings.plugins, organizations)
        wheel_file, name = unwrap(source, upload.file_name, folder)
        package = folder / "package"
        package.mkdir(mode=0o755)
        wheel = unpack_wheel(wheel_file, name, package)
        main_class = _find_main_class(wheel, upload.plugin_id)
        manifest = self._describe(upload.plugin_id, main_class, package, may_install=may_install)
        with self._database.write() as session:
            plugins = AdminRepository(session, caller)
            known = plugins.find_owned_build(upload.plugin_id, upload.build_type, upload.build_number)
            if known is not None:
                if known.digest == wheel.digest:
                    return known
                sentence = "Another file was uploaded as this build of the plugin. Upload it with a new buildNumber."
                raise Conflict(sentence, code="plugin-exists", path="buildNumber")
            organizations = plugins.check_organizations(upload.organization_ids)
            if plugins.count_owned_builds() >= MOST_BUILDS:
                sentence = f"The organization has {MOST_BUILDS} builds of plugins. Delete some first."
                raise Conflict(sentence, code="plugin-limit")
            check_consent(session, self._settings.plugins, manifest, organizations)
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
            add_agents_of(session, organizations, self._add_agents)
            return build

    def delete(self, caller: Identity, plugin_id: str, build_type: str, build_number: int) -> None:
        """Delete a build that the caller may change, with its installations and its file; raise NotFound."""
        with self._database.write() as session:
            plugins = AdminRepository(session, caller)
            build = plugins.find_owned_build(plugin_id, build_type, build_number)
            if build is None:
                raise NotFound("There is no such build of the plugin.")
            session.delete(build)
            session.flush()
            is_last = not plugins.has_file(build.digest)
        if is_last:  # after the commit: a build without a file would fail, a file without a build does not
            for name in (build.file_name, MANIFEST):
                self._storage.delete(plugin_key(build.digest, name))

    def reload(self, caller: Identity) -> tuple[int, dict[str, str]]:
        """Renew the manifests of the builds that the caller may change; return how many, and why which failed."""
        with self._database.read() as session:
            installed = AdminRepository(session, caller).list_changeable()
            builds = {build.id: build for _, build in installed}
            consents = {
                build.id: has_consent(session, self._settings.plugins, installation.organization_ids)
                for installation, build in installed
            }
        made = {build_id: self._describe_stored(build, consents[build_id]) for build_id, build in builds.items()}
        with self._database.write() as session:
            for build_id, (manifest, error) in made.items():
                build = session.get_one(PluginBuild, build_id)
                build.error = error
                if manifest is not None:
                    build.manifest = manifest
        return len(made), {builds[each].plugin_id: error for each, (_, error) in made.items() if error is not None}

    def _describe_stored(self, build: PluginBuild, may_install: bool) -> tuple[dict[str, Any] | None, str | None]:
        """Return the manifest of a stored build, or the reason why there is none."""
        with self.open_scratch() as folder:
            package = folder / "package"
            package.mkdir(mode=0o755)
            source = folder / "plugin.whl"
            try:
                with self._storage.open(plugin_key(build.digest, build.file_name)) as stored:
                    source.write_bytes(stored.read())
                unpack_wheel(source, build.file_name, package)
                made = self._describe(build.plugin_id, build.main_class, package, may_install=may_install)
                return made.model_dump(mode="json"), None
            except NotStored:
                return None, "Its file is missing in the storage. Upload it again."
            except (BadInput, Forbidden, Unavailable) as error:
                return None, error.sentence

    def _describe(self, plugin_id: str, main_class: str, package: Path, *, may_install: bool) -> Manifest:
        """Return the manifest of an unpacked wheel, which is imported with its requirements.

        Without the operator's consent it is imported without that, as its row transforms run.
        """
        missing, folders = self._install_requirements(package, may_install=may_install)
        try:
            manifest = Manifest.model_validate(make_manifest(plugin_id, main_class, (package, *folders)))
            check_transforms({each.name: each.source for each in manifest.transforms})
        except NotIsolated as error:
            sentence = f"This machine cannot isolate a process, which uploaded plugins need ({error.reason})."
            raise Unavailable(sentence, code="no-isolation") from error
        except RunError as error:
            reason = f"The plugin does not load: {error}"
            if missing and not folders:
                sentence = f"{reason}. Its requirements need the operator's consent (SPINDLE_PLUGIN_STAGES)."
                raise Forbidden(sentence, code="no-consent", path="file") from error
            raise BadInput(reason, code="invalid-plugin", path="file") from error
        except ValidationError as error:
            sentence = "The plugin has too many or too long names."
            raise BadInput(sentence, code="invalid-plugin", path="file") from error
        check_shipped(manifest.pipelines, manifest.declare_parts())
        return manifest

    def _install_requirements(self, package: Path, *, may_install: bool) -> tuple[Sequence[str], tuple[Path, ...]]:
        """Return what the wheel requires and the engine does not have, and the folders where that is installed."""
        try:
            missing = find_missing_requirements(package)
            store = open_environments(self._settings)
            return missing, store.install_requirements(missing, LOCK_SECONDS) if may_install else ()
        except InstallFailed as error:
            sentence = f"The plugin's requirements cannot be installed: {error.reason}"
            raise BadInput(sentence, code="invalid-plugin", path="file") from error
        except IndexUnavailable as error:
            raise Unavailable(str(error), code="index-unavailable", path="file") from error


def check_shipped(pipelines: Mapping[str, str], plugins: PluginScope = ALL_PLUGINS) -> None:
    """Raise BadInput for a pipeline of a plugin that no agent can have."""
    for name, text in pipelines.items():
        try:
            pipeline = Pipeline.from_yaml(text, plugins)
            pipeline.plan_open(plugins=plugins)
        except PipelineError as error:
            sentence = f"The plugin's pipeline '{name}' cannot be used: {error}"
            raise BadInput(sentence, code="invalid-plugin", path="file") from error
        if pipeline.packages:  # they are locked when somebody writes the agent
            sentence = f"The plugin's pipeline '{name}' cannot be used: it names packages."
            raise BadInput(sentence, code="invalid-plugin", path="file")


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


def _check_names(plugins: AdminRepository, plugin_id: str, manifest: Manifest) -> None:
    """Raise Conflict for a name that another plugin has."""
    loaded = {each.name for each in load_plugins().loaded}
    if plugin_id in loaded:
        sentence = f"A plugin '{plugin_id}' is installed already."
        raise Conflict(sentence, code="name-taken", path="pluginId")
    claimed = manifest.list_names()
    kinds: dict[str, Registry[Any]] = {"stage": STAGES, "trace action": ACTIONS, "extractor method": METHODS}
    taken = {
        (kind, normalize(spelling)): each.plugin
        for kind, registry in kinds.items()
        for each in registry
        for spelling in each.spellings
    }
    for _, build in plugins.list_installations():
        if build.plugin_id != plugin_id:
            taken |= dict.fromkeys(read_manifest(build).list_names(), build.plugin_id)
    for kind, name in sorted(claimed & taken.keys()):
        sentence = f"The {kind} '{name}' is of the plugin {taken[kind, name]} already. Rename it."
        raise Conflict(sentence, code="name-taken", path="file")
