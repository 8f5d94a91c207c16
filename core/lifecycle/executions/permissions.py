"""The permissions of an organization's executions, which may have changed since they were accepted."""

from __future__ import annotations

from sqlalchemy.orm import Session

from core.definitions.agents.package_locks import check_execution
from core.definitions.identity.organizations import get_organization
from core.definitions.plugins.service import has_consent
from core.errors import Conflict
from core.infra.settings import Settings
from core.infra.settings.pipelines import PluginSettings
from core.tables import Execution

NO_SCRIPTS = "the action evaluate is for organizations that the operator lists in SPINDLE_SCRIPTS"
NO_PLUGINS = "the operator does not allow that for this organization (SPINDLE_PLUGIN_STAGES)"


def check_permissions(session: Session, settings: Settings, execution: Execution) -> None:
    """Check an accepted execution again, before an attempt of it is launched.

    Raises Conflict for scripts in pages and uploaded plugins that the operator does not allow any more, BadInput for
    packages.
    """
    organization_id = execution.organization_id
    script = next((step for step in execution.steps if step.runs_script), None)
    if script and not may_run_scripts(session, settings.plugins, organization_id):
        sentence = f"Line {script.line}: {script.name}: {NO_SCRIPTS}."
        raise Conflict(sentence, code="script-not-allowed", path=f"line {script.line}")
    if execution.plugins and not has_consent(session, settings.plugins, [organization_id]):
        names = ", ".join(each.plugin_id for each in execution.plugins)
        sentence = f"The execution has parts of uploaded plugins ({names}), and {NO_PLUGINS}."
        raise Conflict(sentence, code="no-consent")
    if execution.package_lock is not None:
        check_execution(session, settings, execution)


def may_run_scripts(session: Session, settings: PluginSettings, organization_id: str) -> bool:
    """Return whether an organization's pipelines may run scripts in pages."""
    return "*" in settings.scripts or get_organization(session, organization_id).slug in settings.scripts
