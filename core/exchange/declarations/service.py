"""Applying declarations: one operation, one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from core.definitions.agents.validation import find_valid_pipelines, find_warnings
from core.definitions.identity.api_keys import Identity
from core.errors import BadInput
from core.exchange.declarations.apply import Applier, get_pipeline_text
from core.exchange.declarations.models import Declaration
from core.infra.database import Database
from core.infra.record_writer import RecordChange
from core.infra.validation import exceeds_depth
from pipelines.language.nodes import MAX_DEPTH


@dataclass(frozen=True, slots=True)
class Application:
    """The changes, in the order in which they were made, and warnings about the agents among them."""

    changes: Sequence[RecordChange]
    warnings: Sequence[str]


class _DryRun(Exception):
    """Rolls the transaction back."""


class DeclarationService:
    def __init__(self, database: Database) -> None:
        self._database = database

    def apply(
        self, caller: Identity, declaration: Declaration, *, dry_run: bool = False, prune: bool = False
    ) -> Application:
        """Make the organization match the declaration, or change nothing at all.

        A dry run returns the changes without making them. With `prune`, records are deleted that a section of the
        declaration omits. Raises BadInput and Conflict.
        """
        _check(declaration)
        valid = find_valid_pipelines(
            text for agent in declaration.agents or () for text in (get_pipeline_text(agent), agent.code)
        )
        changes: Sequence[RecordChange] = ()
        agents: list[tuple[str, str | None, dict[str, str]]] = []
        try:
            with self._database.write() as session:
                applier = Applier(session, caller, valid)
                changes = applier.apply(declaration, prune).changes
                if dry_run:
                    raise _DryRun
                agents += [(name, row.pipeline_yaml, dict(found)) for name, row, found in applier.list_changed_agents()]
        except _DryRun:
            return Application(changes, ())
        warnings = (
            f"agent '{name}': {warning}" for name, text, found in agents for warning in find_warnings(text, found)
        )
        return Application(changes, tuple(warnings))


def _check(declaration: Declaration) -> None:
    """Raise BadInput for records that are declared twice, and for files, which only the command line can read."""
    seen = set[tuple[str, ...]]()
    for key in declaration.iter_keys():
        if key in seen:
            raise BadInput(f"The {key[0]} '{'/'.join(key[1:])}' is declared twice.", code="duplicate-name")
        seen.add(key)
    for agent in declaration.agents or ():
        if agent.pipeline_file is not None or any(each.function_file is not None for each in agent.extensions or ()):
            raise BadInput(f"The agent '{agent.name}' refers to a file: send its text.", path="agents")
        if exceeds_depth(MAX_DEPTH, agent.pipeline):
            raise BadInput(f"The pipeline of the agent '{agent.name}' is nested too deep.", path="agents")
        if agent.pipeline is not None and agent.code is not None:
            raise BadInput(f"The agent '{agent.name}' has both pipeline and code.", path="agents")
