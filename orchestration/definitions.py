"""The definitions that Dagster loads: assets and schedules as they are in the database at import.

The code server of `spindle up` replaces them whenever they change (orchestration.code_server).
"""

from __future__ import annotations

from contextlib import closing

from dagster import Definitions

from core.infra.database import open_database
from core.infra.settings import Settings
from core.lifecycle.outlines.outlines import OutlineLoader
from orchestration.definitions_builder import DefinitionsBuilder, load_outlines

builder, loader = DefinitionsBuilder(), OutlineLoader()


def load_definitions() -> Definitions:
    """Return the definitions of all jobs and schedules as they are now."""
    with closing(open_database(Settings())) as database, database.read() as session:
        outlines = load_outlines(session, loader)
    return builder.build(outlines)


definitions = load_definitions()
