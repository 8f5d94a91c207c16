"""`spindle adopt`: a database, a storage and a service key belong together from now on."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from cli.data_folder import check_storage, migrate_database, reserve_instance
from core.infra.database import open_database
from core.infra.installation import adopt
from core.infra.storage import open_storage


def adopt_parts(data: Path, as_copy: bool) -> None:
    """Adopt the parts that the settings name while no service runs on them."""
    with reserve_instance(data) as settings:
        check_storage(settings)
        migrate_database(settings)
        with closing(open_database(settings)) as database:
            done = adopt(settings, database, open_storage(settings.storage), as_copy=as_copy)
    print(f"The database {done.parts.database} and the storage {done.parts.storage} belong together now.")
    if as_copy:
        print(f"They are a copy of the service whose storage is {done.original}, where nothing is written or deleted.")
        print(f"Datasets have no rows here before you copy their files from there to {done.parts.storage}.")
    elif done.previous_database not in (None, done.parts.database):
        print(f"A service of the database {done.previous_database} is refused on this storage.")
    if done.has_other_key:
        print("The service key is another one than before: write the stored secrets again, or restore the earlier key.")
