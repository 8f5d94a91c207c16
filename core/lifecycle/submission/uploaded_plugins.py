"""The uploaded plugins whose code an execution runs, with the operator's consent."""

from __future__ import annotations

from sqlalchemy.orm import Session

from core.definitions.plugins.scope import OrganizationPlugins
from core.definitions.plugins.service import has_consent
from core.errors import Conflict
from core.infra.settings import Settings
from core.lifecycle.executions.permissions import NO_PLUGINS
from core.tables.executions import FrozenPlugin
from pipelines.planning.plan import Plan


def freeze_plugins(
    session: Session, settings: Settings, plugins: OrganizationPlugins, plan: Plan, organization_id: str
) -> list[FrozenPlugin]:
    """Return the uploaded plugins whose parts a plan has; raise Conflict where drivers may not run them."""
    used = [(step, part) for step in plan.steps if step.stage for part in step.stage.list_uploaded()]
    if not used:
        return []
    step, part = used[0]
    subject = (
        f"Line {step.line}: the {part.kind} {part.name} is of the uploaded plugin {plugins.builds[part].plugin_id}"
    )
    if not has_consent(session, settings.plugins, [organization_id]):
        sentence = f"{subject}, and {NO_PLUGINS}."
        raise Conflict(sentence, code="no-consent", path=f"line {step.line}")
    if settings.drivers.compute == "kubernetes":
        sentence = f"{subject}, which drivers in pods do not have. Build the plugin into their image."
        raise Conflict(sentence, code="no-consent", path=f"line {step.line}")
    return [*dict.fromkeys(plugins.builds[part] for _, part in used)]
