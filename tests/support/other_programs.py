"""Other programs that open the locations of datasets, with keys of their own where those lie in a bucket."""

from __future__ import annotations

from typing import Any

import pyarrow.parquet as pq
from pyarrow.fs import S3FileSystem

from tests.support.s3 import Bucket, find_bucket

_SCHEME = "s3://"


def read_parquet(location: str) -> Any:
    """The rows of a folder of Parquet files."""
    if not location.startswith(_SCHEME):
        return pq.read_table(location)
    bucket = _get_bucket()
    scheme, _, host = bucket.endpoint.partition("://")
    files = S3FileSystem(
        access_key=bucket.access_key,
        secret_key=bucket.secret_key,
        region="us-east-1",
        scheme=scheme,
        endpoint_override=host,
    )
    return pq.read_table(location.removeprefix(_SCHEME), filesystem=files)


def open_delta(location: str, version: int | None = None) -> Any:
    """The table, as the deltalake library has it."""
    from deltalake import DeltaTable

    if not location.startswith(_SCHEME):
        return DeltaTable(location, version=version)
    options = {**_get_bucket().user_environment, "AWS_ALLOW_HTTP": "true"}
    return DeltaTable(location, version=version, storage_options=options)


def open_iceberg(metadata_location: str) -> Any:
    """The table at this metadata, as pyiceberg has it."""
    from pyiceberg.table import StaticTable

    if not metadata_location.startswith(_SCHEME):
        return StaticTable.from_metadata(metadata_location)
    bucket = _get_bucket()
    keys = {"s3.access-key-id": bucket.access_key, "s3.secret-access-key": bucket.secret_key}
    return StaticTable.from_metadata(
        metadata_location, {"s3.endpoint": bucket.endpoint, "s3.region": "us-east-1", **keys}
    )


def _get_bucket() -> Bucket:
    bucket = find_bucket()
    assert bucket is not None
    return bucket
