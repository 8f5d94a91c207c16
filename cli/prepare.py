"""`python -m cli.prepare`: brings a data folder's database up to date and makes the first organization and key."""

from __future__ import annotations

import sys

from core.credentials.rotation import finish_rotation
from core.errors import SpindleError
from core.identity.api_keys import bootstrap
from core.infra.database import open_database
from core.infra.migrations import check_current, migrate
from core.infra.settings import Settings


def prepare(settings: Settings) -> None:
    """Safe to run at every start, and by several processes at once."""
    if settings.migrate:
        migrate(settings)
    else:
        check_current(settings)
    database = open_database(settings)
    try:
        bootstrap(database, settings)
        finish_rotation(settings, database)
    finally:
        database.close()


if __name__ == "__main__":
    try:
        prepare(Settings())
    except SpindleError as error:
        sys.exit(str(error))
