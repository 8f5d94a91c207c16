"""Storage of files under keys: execution outputs, saves, driver logs and project packages.

The database stores keys, which are relative to the storage, so the data folder or bucket may move.
"""

from __future__ import annotations

from core.infra.settings import Settings
from core.infra.storage.local import LocalStorage
from core.infra.storage.protocol import Storage


def open_storage(settings: Settings) -> Storage:
    """Return the storage that the settings select: today always the data folder."""
    return LocalStorage(settings.data / "storage")
