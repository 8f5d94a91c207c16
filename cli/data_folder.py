"""The data folder: its lock, its database and keys before a start, and the rotation of its secrets.

`python -m cli.data_folder` prepares the folder that SPINDLE_DATA names.
"""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Generator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile

from pydantic import SecretStr
from sqlalchemy import inspect

from core.definitions.identity.api_keys import bootstrap
from core.errors import SpindleError, Unavailable
from core.infra import database_copy, logs
from core.infra.database import make_address, open_database
from core.infra.installation import establish_installation
from core.infra.instance_lock import InstanceLock
from core.infra.instances import LEASE, get_instance_id, list_instances
from core.infra.migrations import check_current, migrate
from core.infra.settings import Settings
from core.infra.storage import is_bucket, open_storage
from core.integrations.key_rotation import finish_rotation, rotate_service_key
from core.lifecycle.usage.prices import load_rates
from core.tables import Instance

NO_METADATA = {"AWS_EC2_METADATA_DISABLED": "true"}  # a machine elsewhere would wait for an answer
RUNNING = "Another Spindle is running on this database: {holder}. Stop it, or choose another SPINDLE_DATABASE_URL."
RESERVED = (
    "A command, or an earlier version of Spindle, has this database to itself: {holder}. Wait for its end, or stop it."
)
LEASED = "Another Spindle was running on this database a moment ago: {name}. Stop it, or try again in {seconds} s."


class CannotStart(Exception):
    """The reason, as a sentence for the user, why the instance cannot start."""


def prepare(settings: Settings) -> None:
    """Check the price table, migrate the database, finish a rotation, and create the first organization and key.

    Raises ForeignInstallation when the storage or the service key belongs to another database. Every start calls this;
    several processes may do so at once.
    """
    load_rates(settings.costs)
    migrate_database(settings)
    database = open_database(settings)
    try:
        finish_rotation(settings, database)
        establish_installation(settings, database, open_storage(settings.storage))
        bootstrap(database, settings)
    finally:
        database.close()


def migrate_database(settings: Settings) -> None:
    """Migrate the database, or raise OlderSchema where a setting says that starts do not."""
    if settings.database.migrate:
        migrate(settings)
    else:
        check_current(settings)


def create_data_folder(data: Path) -> None:
    """Create the folder unless it exists; raise CannotStart when it cannot hold files."""
    try:
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(PermissionError):  # it is somebody else's, such as a volume
            data.chmod(0o700)
        TemporaryFile(dir=data).close()
    except OSError as error:
        reason = error.strerror or str(error)
        raise CannotStart(f"{data} cannot be the data folder ({reason}). Choose another --data.") from None


def check_storage(settings: Settings) -> None:
    """Raise CannotStart with the reason when a bucket cannot be used; a folder is checked with the data folder."""
    if not is_bucket(settings.storage):
        return
    for name, value in NO_METADATA.items():
        os.environ.setdefault(name, value)
    try:
        open_storage(settings.storage).check()
    except Unavailable as error:
        raise CannotStart(f"{error.sentence} ({settings.storage.address})") from None


@contextmanager
def lock_data_folder(data: Path) -> Generator[None]:
    """Reserve the data folder for one instance; raise CannotStart when another instance has it."""
    with (data / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CannotStart(f"Another Spindle is running on {data}. Stop it, or choose another --data.") from None
        yield


@contextmanager
def join_database(settings: Settings) -> Generator[InstanceLock]:
    """Share a PostgreSQL database with other instances; raise CannotStart when a command has it to itself."""
    with _hold(InstanceLock(settings), RESERVED) as lock:
        yield lock


@contextmanager
def lock_database(settings: Settings) -> Generator[None]:
    """Reserve a PostgreSQL database for this process; raise CannotStart when an instance or another process has it."""
    with _hold(InstanceLock(settings, alone=True), RUNNING):
        _check_leases(settings)
        yield


def _check_leases(settings: Settings) -> None:
    """Raise CannotStart for an instance that has lost its connection for a moment."""
    if make_address(settings) is None:
        return
    with closing(open_database(settings)) as database, database.read() as session:
        if inspect(session.connection()).has_table(Instance.__tablename__):
            own = get_instance_id(settings.data)  # not running: its folder is locked
            if found := next((each for each in list_instances(session) if each.id != own), None):
                raise CannotStart(LEASED.format(name=found.name, seconds=LEASE.seconds))


@contextmanager
def _hold(lock: InstanceLock, refusal: str) -> Generator[InstanceLock]:
    try:
        if holder := lock.acquire():
            raise CannotStart(refusal.format(holder=holder))
        yield lock
    except Unavailable as error:
        raise CannotStart(error.sentence) from None
    finally:
        lock.close()


@contextmanager
def reserve_instance(data: Path) -> Generator[Settings]:
    """Reserve the data folder and the database while no server runs; print a failure and exit with 1."""
    settings = Settings(data=data.resolve())
    try:
        if not settings.data.is_dir():
            raise CannotStart(f"There is no data folder {data}. Make it, or give another with --data.")
        with lock_data_folder(settings.data), lock_database(settings):
            yield settings
    except (CannotStart, SpindleError) as error:
        print(error, file=sys.stderr)
        sys.exit(1)


def rotate_secrets(data: Path) -> None:
    """Encrypt all secrets with a new service key while no server runs."""
    with reserve_instance(data) as settings, closing(open_database(settings)) as database:
        check_current(settings)
        rotation = rotate_service_key(settings, database)
    print(f"Encrypted {rotation.values - rotation.unreadable} values with a new service key.")
    if rotation.unreadable:
        print(f"{rotation.unreadable} values cannot be decrypted with the current key and were not changed.")
    if settings.keys.new_secret_key is not None:
        print("Before you start Spindle again, set SPINDLE_SECRET_KEY to the value of SPINDLE_NEW_SECRET_KEY.")


def copy_database(data: Path, url: str) -> None:
    """Copy the metadata database to another one while no server runs."""
    with reserve_instance(data) as settings:
        target = settings.replace(database_url=SecretStr(url))
        with lock_database(target):
            made = database_copy.copy_database(settings, target)
    print(f"Copied {made.rows:,} rows of {made.tables} tables.")
    if made.left_out:
        print(f"Tables of plugins are not copied: {', '.join(made.left_out)}.")
    print("Dagster's own history of runs stays in the folder; executions have all that they had.")
    print("Set SPINDLE_DATABASE_URL to the new database, and call `spindle adopt` before you start Spindle again.")


def main() -> None:
    logs.configure("start")
    try:
        prepare(Settings())
    except SpindleError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
