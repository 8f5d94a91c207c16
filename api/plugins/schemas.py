"""Plugins and their installations as JSON."""

from __future__ import annotations

import json
from datetime import datetime

from api.kit.schemas import Record
from core.definitions.plugins.service import PluginRecord
from core.infra.storage.protocol import plugin_key
from core.tables import PluginBuild, PluginInstallation


class Plugins(Record):
    plugins: list[PluginRecord]
    """Plugins of the service's environment, then uploaded ones."""


class InstallationRecord(Record):
    id: int
    """Id of the installation, an integer."""
    plugin_id: str
    """Name of the plugin."""
    plugin_type: str | None
    """As the request gave it."""
    build_type: str
    """Kind of the build, such as release."""
    build_number: int
    """Number of the build."""
    version: str
    """Version of its package."""
    jar_path: str
    """Where its wheel is in the storage."""
    manifest_path: str
    """Where the manifest is that was made of it at the upload."""
    enabled: bool
    """Whether the installation is enabled."""
    organization_id: str | None
    """The only organization that has it; null for several or all."""
    organization_ids_json: str
    """The organizations that have it, a JSON array as text; an empty one means all."""
    main_class: str
    """The plugin's object, as module:name."""
    description: str | None
    error: str | None
    """Why the plugin does not load; null where it does."""
    installed_at: datetime
    """When it was installed."""
    updated_at: datetime
    enabled_at: datetime | None
    """When it was enabled last."""
    enabled_by: str | None
    """The organization whose key enabled it last."""
    installed_by: str
    """The organization whose key installed it."""


class Message(Record):
    message: str
    """What was done, as a sentence."""


def build_installation_record(found: tuple[PluginInstallation, PluginBuild], own_id: str) -> InstallationRecord:
    """Return the record; of the operator's installations only the caller's own organization is shown to it."""
    installation, build = found
    is_own = installation.organization_id == own_id
    ids = [each for each in installation.organization_ids if is_own or each == own_id]
    return InstallationRecord.from_row(
        installation,
        plugin_id=build.plugin_id,
        build_type=build.build_type,
        build_number=build.build_number,
        version=build.version,
        jar_path=plugin_key(build.digest, build.file_name),
        manifest_path=plugin_key(build.digest, "manifest.json"),
        organization_id=ids[0] if len(ids) == 1 else None,
        organization_ids_json=json.dumps(ids),
        main_class=build.main_class,
        error=build.error,
    )
