"""Declarations: an organization's records as one document, exported and applied in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session

from core.definitions.agents.texts import check_texts
from core.definitions.agents.validation import find_warnings
from core.definitions.identity.api_keys import Identity
from core.definitions.plugins.scope import load_scope
from core.errors import BadInput
from core.infra.database import Database
from core.infra.settings import Settings
from core.infra.validation import exceeds_depth
from core.integrations.declarations.apply import Applier
from core.integrations.declarations.export import export_declaration
from core.integrations.declarations.models import Declaration, format_name, get_pipeline_text
from core.integrations.declarations.records import AppliedChange, reject_ambiguous
from core.lifecycle.outlines.outlines import find_cycle_warnings
from pipelines.language.nodes import MAX_DEPTH


@dataclass(frozen=True, slots=True)
class Application:
    """The changes in the order of the declaration, deletions last, the number of records that were the same, and
    warnings about the written agents and jobs or, for a package, about references to what is not here."""

    changes: Sequence[AppliedChange]
    unchanged: int
    warnings: Sequence[str]


def export(session: Session, caller: Identity) -> Declaration:
    """Return the records that the caller may see, without defaults. Raises Conflict where two share a name."""
    declaration = export_declaration(session, caller, minimal=True)
    if repeated := declaration.find_repeated():
        raise reject_ambiguous(repeated[0][0], format_name(repeated[0]))
    return declaration


def apply(
    database: Database,
    settings: Settings,
    caller: Identity,
    declaration: Declaration,
    *,
    dry_run: bool = False,
    prune: bool = False,
    complete: bool = False,
) -> Application:
    """Make the organization match the declaration, or change nothing at all.

    A dry run returns the changes without making them. With `prune`, records are deleted that a section of the
    declaration omits. Packages are `complete`: see `Applier`. Pipelines are parsed outside the transaction, in which
    nobody else can write to SQLite. Raises BadInput and Conflict.
    """
    _check(declaration, complete)
    declared = [(get_pipeline_text(agent), agent.code) for agent in declaration.agents or ()]
    pipelines, codes = [text for text, _ in declared], [code for text, code in declared if text is None]
    texts = check_texts(database, settings, caller.organization_id, pipelines, codes)
    agents: list[tuple[str, str | None, dict[str, str]]] = []
    with database.write() as session:
        plugins = load_scope(session, caller.organization_id)
        applier = Applier(session, caller, settings, texts, complete=complete)
        applier.apply(declaration, prune=prune)
        if dry_run:
            session.rollback()
        elif not complete:
            changed = list(applier.list_changed_agents())
            agents += [(name, row.pipeline_yaml, dict(transforms)) for name, row, transforms in changed]
            written = {"job_ids": applier.records.changed_job_ids, "agent_ids": [row.id for _, row, _ in changed]}
            applier.records.warnings += find_cycle_warnings(session, caller.organization_id, **written)
    warnings = [
        f"agent '{name}': {each}"
        for name, text, found in agents
        for each in find_warnings(text, plugins.add_transforms(found), plugins.scope)
    ]
    return Application(applier.records.changes, applier.records.unchanged, applier.records.warnings + warnings)


def _check(declaration: Declaration, complete: bool) -> None:
    """Raise BadInput for records that are declared twice, and for files, which only the command line can read."""
    if repeated := declaration.find_repeated(complete=complete):
        key, _ = repeated
        raise BadInput(f"The {key[0]} '{format_name(key)}' is declared twice.", code="duplicate-name")
    for agent in declaration.agents or ():
        if agent.pipeline_file is not None or any(each.function_file is not None for each in agent.extensions or ()):
            raise BadInput(f"The agent '{agent.name}' refers to a file: send its text.", path="agents")
        if exceeds_depth(MAX_DEPTH, agent.pipeline):
            raise BadInput(f"The pipeline of the agent '{agent.name}' is nested too deep.", path="agents")
        if agent.pipeline is not None and agent.code is not None:
            raise BadInput(f"The agent '{agent.name}' has both pipeline and code.", path="agents")
