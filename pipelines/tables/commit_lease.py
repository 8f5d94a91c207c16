"""The lease of a table: one writer at a time looks at the table and commits.

On a disk it is a lock of the folder around the table's. In a bucket two writers of the same moment can both make the
file of the next commit's number, and the rows of one are lost. The lease there is a file that one writer alone can
make, by a conditional PUT (https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html). Its owner
renews it; the lease of an owner that has ended is taken.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from pipelines.errors import RunError, StorageAway
from pipelines.filesystem import (
    S3Access,
    find_access,
    find_storage_failure,
    lock_folder,
    open_filesystem,
    split_address,
)

LEASE_SECONDS = 30.0  # without a renewal, then the owner has ended
NAME = "_spindle.lease"
_RENEW_SECONDS = 5.0
_POLL_SECONDS = 0.5
_OTHERS = ("PreconditionFailed", "ConditionalRequestConflict", "NoSuchKey", "404", "409", "412")
_UNKNOWN = ("NotImplemented", "501")

_log = logging.getLogger(__name__)


class _NoLeases(Exception):
    """The server knows no conditional PUT."""


@contextmanager
def hold_lease(location: str) -> Generator[None]:
    """Have the lease of the table in a folder, after a wait for other writers."""
    address = split_address(location)
    if address is None:
        with lock_folder(Path(open_filesystem(location)[1]).parent):
            yield
        return
    bucket, folder = address
    lease = _Lease(find_access(bucket), bucket, f"{folder.rstrip('/')}/{NAME}")
    try:
        lease.acquire()
    except _NoLeases:
        _log.warning("The bucket '%s' knows no conditional PUT: two writers of a table may lose rows.", bucket)
    ended = threading.Event()
    renewal = threading.Thread(target=lease.renew, args=(ended,), name="lease", daemon=True)
    renewal.start()
    try:
        yield
    finally:
        ended.set()
        renewal.join()
        lease.release()


class _Lease:
    """A file of which only the owner knows the newest ETag."""

    def __init__(self, access: S3Access, bucket: str, key: str) -> None:
        self._client = _create_client(access)
        self._place = {"Bucket": bucket, "Key": key}
        self._etag: str | None = None

    def acquire(self) -> None:
        """Make the file, or take one that nobody has renewed for a while."""
        found, found_at = None, 0.0
        while True:
            self._etag = self._put(IfNoneMatch="*")
            if self._etag is None and found and time.monotonic() - found_at > LEASE_SECONDS:
                self._etag = self._put(IfMatch=found)
            if self._etag is not None:
                return
            if (newest := self._find()) != found:
                found, found_at = newest, time.monotonic()
            time.sleep(_POLL_SECONDS)

    def renew(self, ended: threading.Event) -> None:
        """Write the file again until the end, or until another writer has taken it."""
        while self._etag is not None and not ended.wait(_RENEW_SECONDS):
            try:
                self._etag = self._put(IfMatch=self._etag)
            except RunError as error:  # it may answer again before the lease has ended
                _log.warning("The lease of a table could not be renewed: %s", error)
                continue
            if self._etag is None:
                _log.warning("Another writer has taken the lease of the table, which was not renewed in time.")

    def release(self) -> None:
        """Delete the file, and let the lease end by itself where that fails: the rows are committed."""
        try:
            if self._etag is not None and self._find() == self._etag:
                self._call("delete_object")
        except RunError as error:
            _log.warning("The lease of a table could not be given back: %s", error)
        finally:
            self._client.close()

    def _put(self, **condition: str | None) -> str | None:
        """Return the ETag of the new file; None where the condition is not met."""
        answer = self._call("put_object", Body=uuid4().bytes, **condition)
        return None if answer is None else str(answer["ETag"])

    def _find(self) -> str | None:
        answer = self._call("head_object")
        return None if answer is None else str(answer["ETag"])

    def _call(self, name: str, **arguments: Any) -> dict[str, Any] | None:
        """Return the answer; None where another writer's file is, or was, there. Raise RunError."""
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            return getattr(self._client, name)(**self._place, **arguments)
        except ClientError as error:
            code = error.response["Error"]["Code"]
            if code in _OTHERS:
                return None
            if code in _UNKNOWN:
                raise _NoLeases from error
            text = f"AWS Error in bucket '{self._place['Bucket']}': {error}"
            raise find_storage_failure(text) or RunError(f"the lease of a table cannot be written: {error}") from error
        except BotoCoreError as error:
            raise StorageAway(f"the bucket '{self._place['Bucket']}' cannot be reached: {error}") from error


def _create_client(access: S3Access) -> Any:
    import boto3  # a tenth of a second, which runs that write no table in a bucket do without
    from botocore.config import Config

    session = boto3.Session(
        access.access_key_id, access.secret_access_key, access.session_token, region_name=access.region
    )
    config = Config(
        connect_timeout=10,
        read_timeout=10,
        retries={"mode": "standard", "max_attempts": 3},
        s3={"addressing_style": "path" if access.path_style else "auto"},
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )
    return session.client("s3", endpoint_url=access.endpoint, config=config)
