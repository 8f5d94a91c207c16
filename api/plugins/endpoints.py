"""Administration of plugins: list, upload, switch on and off, and installations."""

from __future__ import annotations

from pathlib import Path as FilePath
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request

from api.kit.auth import Admin, KeyRoute
from api.kit.errors import answers
from api.kit.idempotency import REPLAYED
from api.kit.multipart import Form
from api.kit.schemas import Nothing
from api.kit.services import ServicesOf
from api.kit.sessions import ReadSession, WriteSession
from api.kit.uploads import describe_form, receive_wheel
from api.plugins.schemas import (
    InstallationRecord,
    Message,
    Plugins,
    build_installation_record,
)
from core.definitions.agents.shipped import add_shipped_agents
from core.definitions.plugins import service as plugins
from core.definitions.plugins.models import InstallationChanges, InstallationCreate, PluginUpload
from core.definitions.plugins.repository import MAX_ID
from core.errors import BadInput

router = APIRouter(prefix="/admin", tags=["plugins"], route_class=KeyRoute)

UPLOAD = "/plugins/upload"
TEXT = {"type": "string"}
FORM = describe_form(
    {
        "pluginId": {**TEXT, "description": "Name of the plugin."},
        "buildType": {**TEXT, "description": "Kind of the build, such as release."},
        "buildNumber": {"type": "integer", "description": "Number of the build."},
        "organizationIds": {**TEXT, "description": "Organizations that get it, comma-separated; by default the own."},
    },
    ("pluginId", "buildType", "buildNumber"),
)
BuildType = Annotated[str | None, Query(alias="buildType", description="Kind of the builds; all when left out.")]
PluginId = Annotated[str, Path(alias="pluginId", description="Name of the plugin.")]
InstallationId = Annotated[int, Path(alias="installationId", description="Id of the installation, an integer.")]


@router.get("/plugins", summary="List the plugins that the organization has")
def list_plugins(caller: Admin, session: ReadSession, build_type: BuildType = None) -> Plugins:
    """Return the plugins of the service's environment, and those that were uploaded for the organization."""
    found = plugins.list_plugins(session, caller, build_type)
    return Plugins(plugins=[*found])


@router.post(
    UPLOAD,
    summary="Upload a plugin as a wheel, and install it",
    responses=answers(403, 408, 409, 413),
    openapi_extra=FORM,
)
async def upload_plugin(request: Request, caller: Admin, services: ServicesOf) -> Nothing:
    """Check a wheel, or a zip with one, store it, and install it for organizations.

    The service never imports it: an isolated process reads what it adds. Its row transforms run as users' functions do,
    its stages in drivers of their own, and it serves no operations. Its pipelines become agents in a category of its
    name. The same file again changes nothing.
    """

    def store(form: Form, source: FilePath, folder: FilePath) -> None:
        services.plugin_uploads.store(caller, _parse_form(form), source, folder)

    await receive_wheel(request, caller.organization_id, services.plugin_uploads.open_scratch(), store)
    return Nothing()


@router.post("/plugins/{pluginId}/enable", summary="Enable a plugin", responses=answers(404, 409))
def enable_plugin(plugin_id: PluginId, caller: Admin, session: WriteSession, build_type: BuildType = None) -> Nothing:
    """Let the organization's pipelines use a disabled plugin again; the key of a super_admin, those of all."""
    plugins.switch(session, caller, plugin_id, build_type, enabled=True)
    return Nothing()


@router.post("/plugins/{pluginId}/disable", summary="Disable a plugin", responses=answers(404))
def disable_plugin(plugin_id: PluginId, caller: Admin, session: WriteSession, build_type: BuildType = None) -> Nothing:
    """Refuse executions of the organization that use the plugin's stages or row transforms, and warn of them in
    agents; with the key of a super_admin, of all organizations."""
    plugins.switch(session, caller, plugin_id, build_type, enabled=False)
    return Nothing()


@router.delete(
    "/plugins/{pluginId}/builds/{uploadedType}/{uploadedNumber}",
    summary="Delete an uploaded plugin",
    responses=answers(404),
)
def delete_plugin_build(
    plugin_id: PluginId,
    build_type: Annotated[str, Path(alias="uploadedType", description="Kind of the build, such as release.")],
    build_number: Annotated[int, Path(alias="uploadedNumber", ge=0, le=MAX_ID, description="Number of the build.")],
    caller: Admin,
    services: ServicesOf,
) -> Nothing:
    """Delete a build with its installations and its file. Executions that have begun keep what they have of it."""
    services.plugin_uploads.delete(caller, plugin_id, build_type, build_number)
    return Nothing()


@router.get("/plugin-installations", summary="List the installations of uploaded plugins", responses=answers(400))
def list_installations(
    caller: Admin,
    session: ReadSession,
    organization_id: Annotated[
        str | None, Query(alias="organizationId", description="Another organization, for a super_admin.")
    ] = None,
    enabled_only: Annotated[bool, Query(alias="enabledOnly", description="Without disabled ones.")] = False,
) -> list[InstallationRecord]:
    """Return the installations that the organization has, oldest first."""
    found = plugins.list_installations(session, caller, organization_id, enabled_only=enabled_only)
    return [build_installation_record(each, caller.organization_id) for each in found]


@router.post(
    "/plugin-installations",
    dependencies=[REPLAYED],
    summary="Install an uploaded plugin",
    responses=answers(403, 409),
)
def create_installation(
    body: InstallationCreate, caller: Admin, session: WriteSession, services: ServicesOf
) -> InstallationRecord:
    """Install a build that was uploaded before for the caller's organization, or by a super_admin for any."""
    made = plugins.create_installation(session, services.settings, caller, body, add_shipped_agents)
    return build_installation_record(made, caller.organization_id)


@router.post("/plugin-installations/reload", summary="Read the uploaded plugins anew")
def reload_installations(caller: Admin, services: ServicesOf) -> Message:
    """Make the manifests of the organization's uploaded plugins again, without a restart, as after an update of the
    engine."""
    count, failed = services.plugin_uploads.reload(caller)
    reasons = "".join(f" {plugin_id}: {reason}" for plugin_id, reason in failed.items())
    return Message(message=f"{count} plugins were read again, and {len(failed)} of them failed.{reasons}")


@router.get("/plugin-installations/{installationId}", summary="Read an installation", responses=answers(404))
def read_installation(installation_id: InstallationId, caller: Admin, session: ReadSession) -> InstallationRecord:
    """Return an installation of the organization."""
    found = plugins.get_installation(session, caller, installation_id)
    return build_installation_record(found, caller.organization_id)


@router.put("/plugin-installations/{installationId}", summary="Change an installation", responses=answers(403, 404))
def update_installation(
    installation_id: InstallationId,
    body: InstallationChanges,
    caller: Admin,
    session: WriteSession,
    services: ServicesOf,
) -> InstallationRecord:
    """Change the fields that the body has. Fields of the upload are ignored."""
    changed = plugins.update_installation(session, services.settings, caller, installation_id, body)
    return build_installation_record(changed, caller.organization_id)


@router.delete("/plugin-installations/{installationId}", summary="Delete an installation", responses=answers(403, 404))
def delete_installation(installation_id: InstallationId, caller: Admin, session: WriteSession) -> Nothing:
    """Delete an installation. The uploaded file stays, and can be installed again."""
    plugins.delete_installation(session, caller, installation_id)
    return Nothing()


@router.post(
    "/plugin-installations/{installationId}/enable", summary="Enable an installation", responses=answers(403, 404)
)
def enable_installation(installation_id: InstallationId, caller: Admin, session: WriteSession) -> Nothing:
    """Let pipelines use the plugin of this installation."""
    plugins.enable_installation(session, caller, installation_id, enabled=True)
    return Nothing()


@router.post(
    "/plugin-installations/{installationId}/disable", summary="Disable an installation", responses=answers(403, 404)
)
def disable_installation(installation_id: InstallationId, caller: Admin, session: WriteSession) -> Nothing:
    """Keep the installation without effect."""
    plugins.enable_installation(session, caller, installation_id, enabled=False)
    return Nothing()


def _parse_form(form: Form) -> PluginUpload:
    fields = form.fields
    for name in ("pluginId", "buildType", "buildNumber"):
        if not fields.get(name):
            raise BadInput(f"The form has no field '{name}'.", code="missing-field", path=name)
    number = fields["buildNumber"]
    if not (number.isascii() and number.isdecimal() and len(number) < 10):
        raise BadInput("'buildNumber' is a whole number of at most nine digits.", path="buildNumber")
    ids = (each.strip() for each in fields.get("organizationIds", "").split(","))
    return PluginUpload(
        plugin_id=fields["pluginId"],
        build_type=fields["buildType"],
        build_number=int(number),
        organization_ids=tuple(each for each in ids if each),
        file_name=form.file_name or "",
    )
