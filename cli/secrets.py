"""`spindle secrets rotate`: another service key, while no server runs."""

from __future__ import annotations

import sys
from pathlib import Path

from cli.up import CannotStart, locked
from core.credentials.rotation import rotate
from core.errors import SpindleError
from core.infra.database import open_database
from core.infra.settings import Settings

AS_SET = "Before you start Spindle again, set SPINDLE_SECRET_KEY to what SPINDLE_NEW_SECRET_KEY is."


def rotate_secrets(data: Path) -> int:
    """Returns 1, with a sentence, when it could not be done."""
    settings = Settings(data=data.resolve())
    try:
        if not settings.data.is_dir():
            raise CannotStart(f"There is no data folder {data}.")
        with locked(settings.data):
            database = open_database(settings)
            rotation = rotate(settings, database)
            database.close()
    except (CannotStart, SpindleError) as error:
        print(error, file=sys.stderr)
        return 1
    print(f"Sealed {rotation.values - rotation.unreadable} values under a new service key.")
    if rotation.unreadable:
        print(f"{rotation.unreadable} more were sealed under a key that is not here, and stay as they are.")
    if settings.new_secret_key is not None:
        print(AS_SET)
    return 0
