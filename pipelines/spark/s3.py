"""Spark's access to buckets: settings of s3a, handed to the session after its start.

Settings of a start are arguments of Java's process, which other users of the machine can read. These reach executors
with the jobs, like all settings of Hadoop.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import SparkSession

from pipelines.filesystem import S3Access, list_bucket_access, load_storage_access, load_user_access

_CLASS = "org.apache.hadoop.fs.s3a.S3AFileSystem"
_FIXED_KEYS = "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"
_TEMPORARY_KEYS = "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider"
_NO_KEYS = "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"
_SETTINGS = {
    "fs.s3.impl": _CLASS,
    "fs.s3a.impl": _CLASS,
    "fs.s3n.impl": _CLASS,
    # never those of the machine
    "fs.s3a.aws.credentials.provider": _NO_KEYS,
    # a server that is away is reported within a minute
    "fs.s3a.attempts.maximum": "3",
    "fs.s3a.retry.limit": "4",
    "fs.s3a.connection.establish.timeout": "5s",
    "fs.s3a.connection.timeout": "30s",
    "fs.s3a.create.checksum.algorithm": "",
    # blocks of uploads are in memory, not in a folder that several users share
    "fs.s3a.fast.upload.buffer": "bytebuffer",
    "fs.s3a.fast.upload.active.blocks": "2",
    "fs.s3a.multipart.size": "16M",
}


def configure_buckets(spark: SparkSession) -> None:
    """Give the session access to the service's bucket, and to others by the AWS credential of the environment."""
    found = [each for each in (load_user_access(), *list_bucket_access(), load_storage_access()) if each]
    if not found:
        return
    java: Any = spark  # PySpark has no API for it
    hadoop = java._jsc.hadoopConfiguration() if hasattr(java, "_jsc") else java.sparkContext._jsc.hadoopConfiguration()
    settings = dict(_SETTINGS)
    for access in found:
        settings |= dict(_list_settings(access))
    for name, value in settings.items():
        hadoop.set(name, value)


def _list_settings(access: S3Access) -> Iterator[tuple[str, str]]:
    prefix = f"fs.s3a.bucket.{access.bucket}" if access.bucket else "fs.s3a"
    yield f"{prefix}.access.key", access.access_key_id
    yield f"{prefix}.secret.key", access.secret_access_key
    yield f"{prefix}.aws.credentials.provider", _TEMPORARY_KEYS if access.session_token else _FIXED_KEYS
    if access.session_token:
        yield f"{prefix}.session.token", access.session_token
    yield f"{prefix}.endpoint.region", access.region
    yield f"{prefix}.path.style.access", str(access.path_style).lower()
    yield f"{prefix}.endpoint", access.endpoint or ""
