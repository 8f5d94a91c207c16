"""Files that an organization's executions share, such as images of products: deleted when no rows name them any more.

A row names a file by its SHA-256, in a column whose name ends in `_sha256` or `_thumbnail`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta

from sqlalchemy import select

from core.data.datasets.version_files import list_version_files
from core.data.datasets.versions import list_unfinished
from core.infra.cleanup import Cleanup
from core.infra.database import Database
from core.infra.storage.protocol import Storage, StoredFile, kept_files_key
from core.tables import Dataset, DatasetVersion
from pipelines.fetch.files import RENEW_SECONDS
from pipelines.language.formats import PARQUET_FORMATS

HASH_COLUMN = re.compile(r".*_(sha256|thumbnail)", re.DOTALL)
HASH = re.compile(r"[0-9a-f]{64}")
BATCH_ROWS = 65_536


def delete_unused(
    cleanup: Cleanup, database: Database, storage: Storage, organization_id: str, before: datetime
) -> list[StoredFile]:
    """Delete the files that were kept before a time and that no version names; return them.

    A file that an unfinished execution has kept stays. Nothing is deleted while a version in another format than
    Parquet, Delta and Iceberg has such a column.
    """
    with database.read() as session:
        begun = [each.created_at for each in list_unfinished(session, organization_id)]
        query = select(DatasetVersion).join(Dataset, Dataset.id == DatasetVersion.dataset_id)
        versions = session.scalars(query.where(Dataset.organization_id == organization_id)).all()
    before = min([before, *(at - timedelta(seconds=RENEW_SECONDS) for at in begun)])
    unused = {file.key for file in _list_kept(storage, organization_id, before)}
    for version in versions if unused else ():
        columns = [each["name"] for each in version.columns if HASH_COLUMN.fullmatch(each["name"])]
        if not columns:
            continue
        if version.format not in PARQUET_FORMATS or {*columns} & {*version.partition_by}:
            return []
        place = (version.format, version.locations, version.snapshot, version.files)
        for key in list_version_files(storage, organization_id, *place):
            unused.difference_update(f"{kept_files_key(organization_id)}/{each}" for each in _read_hashes(storage, key))
    # listed again, since an execution may have kept some meanwhile
    deleted = [file for file in _list_kept(storage, organization_id, before) if file.key in unused]
    for file in deleted:
        cleanup.delete_file("shared files", storage, file)
    return deleted


def _list_kept(storage: Storage, organization_id: str, before: datetime) -> list[StoredFile]:
    files = storage.list(kept_files_key(organization_id))
    return [each for each in files if each.modified_at < before and HASH.fullmatch(each.key.rpartition("/")[2])]


def _read_hashes(storage: Storage, key: str) -> Iterator[str]:
    """Yield the hashes in a file, whose columns end alike where Iceberg gives them other names."""
    import pyarrow.parquet as pq  # a large library, for instances that keep files

    with storage.open(key) as content:
        file = pq.ParquetFile(content)
        own = list(filter(HASH_COLUMN.fullmatch, file.schema_arrow.names))
        for batch in file.iter_batches(BATCH_ROWS, columns=own) if own else ():
            for column in batch.columns:
                yield from (str(value) for value in column.unique().to_pylist() if value is not None)
