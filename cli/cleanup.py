"""`spindle cleanup`: it removes the records and files that an instance no longer keeps, also while the service runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

from cli.terminal import print_table
from core.errors import SpindleError
from core.infra.database import open_database
from core.infra.installation import open_guarded_storage
from core.infra.migrations import check_current
from core.infra.settings import Settings
from core.integrations.cleanup import Cleaner
from orchestration.instance import DAGSTER_DATABASE, get_dagster_database_url


def clean_up(data: Path, *, dry_run: bool) -> int:
    """Print the counts of a cleanup or of its preview; return 1 after printing a failure."""
    settings = Settings(data=data.resolve())
    try:
        if not settings.data.is_dir():
            print(f"There is no data folder {data}.", file=sys.stderr)
            return 1
        check_current(settings)
        with open_cleaner(settings) as cleaner:
            cleanup = cleaner.clean_up(dry_run=dry_run)
    except SpindleError as error:
        print(error.sentence, file=sys.stderr)
        return 1
    rows = [[kind, str(each.count), str(each.bytes)] for kind, each in cleanup.removed.items() if each.count]
    if rows:
        print_table(["Would be removed" if dry_run else "Removed", "Count", "Bytes of files"], rows)
    else:
        print("Nothing is kept for too long.")
    return 0


@contextmanager
def open_cleaner(settings: Settings) -> Generator[Cleaner]:
    """Open the parts of the service that a cleanup uses; before the first start Dagster has no instance."""
    home = settings.data / "dagster"
    with closing(open_database(settings)) as database:
        storage = open_guarded_storage(settings, database)
        if not (home / "dagster.yaml").exists():
            yield Cleaner(settings, database, storage, lambda _cleanup, _before: None)
            return
        from dagster import DagsterInstance  # takes a second to import

        from orchestration.old_runs import delete_old_runs

        os.environ.update({DAGSTER_DATABASE: url} if (url := get_dagster_database_url(settings)) else {})
        with DagsterInstance.from_config(str(home)) as instance:
            yield Cleaner(settings, database, storage, partial(delete_old_runs, instance, database))
