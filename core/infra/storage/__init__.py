"""Storage of files under keys: execution outputs, saves, driver logs and project packages.

The database stores keys, which are relative to the storage, so the data folder or bucket may move.
"""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.infra.settings.storage import StorageSettings
from core.infra.storage.local import LocalStorage
from core.infra.storage.protocol import Storage
from pipelines.filesystem import STORAGE_ACCESS, split_address

if TYPE_CHECKING:
    from core.infra.storage.s3 import S3Storage


def open_storage(settings: StorageSettings) -> Storage:
    """Return the storage that the settings select: a bucket, or a folder of this machine."""
    return _open_bucket(settings) if is_bucket(settings) else LocalStorage(get_local_folder(settings))


def is_bucket(settings: StorageSettings) -> bool:
    """Return whether the storage is a bucket, and not a folder of this machine."""
    return split_address(settings.address or "") is not None


def get_local_folder(settings: StorageSettings) -> Path:
    """Return the folder for files of this machine: the storage itself, or what drivers write before it is stored."""
    folder = settings.data / "storage"
    return folder if settings.address is None or is_bucket(settings) else Path(settings.address)


def get_storage_type(settings: StorageSettings) -> str:
    """Return the `storageType` of datasets."""
    return "S3" if is_bucket(settings) else "LOCAL"


def load_storage_secrets(settings: StorageSettings) -> dict[str, str]:
    """Return the variables with which a driver reaches the storage; none for a folder. Raise Unavailable."""
    return {STORAGE_ACCESS: _open_bucket(settings).export_access().to_json()} if is_bucket(settings) else {}


def _open_bucket(settings: StorageSettings) -> S3Storage:
    bucket, prefix = split_address(settings.address or "") or ("", "")
    key, token = settings.s3_secret_access_key, settings.s3_session_token
    return _connect(
        os.getpid(),
        bucket,
        prefix,
        endpoint=settings.s3_endpoint,
        region=settings.s3_region,
        path_style=settings.s3_path_style,
        access_key_id=settings.s3_access_key_id,
        secret_access_key=key.get_secret_value() if key else None,
        session_token=token.get_secret_value() if token else None,
    )


@lru_cache(maxsize=8)
def _connect(_pid: int, bucket: str, prefix: str, **options: Any) -> S3Storage:
    """Return the one client of this process: making one takes a tenth of a second."""
    from core.infra.storage.s3 import S3Storage  # boto3 takes half a second to import

    return S3Storage(bucket, prefix, **options)
