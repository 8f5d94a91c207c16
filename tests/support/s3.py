"""A bucket for tests, on the S3 server that the environment names, such as ../shared/testbed's.

SPINDLE_TEST_S3_ENDPOINT, _ACCESS_KEY, _SECRET_KEY and _BUCKET; tests that need S3 are skipped without them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any
from uuid import uuid4

import boto3
import pytest
from botocore.config import Config

VARIABLE = "SPINDLE_TEST_S3_"
NO_METADATA = {"AWS_EC2_METADATA_DISABLED": "true"}


@dataclass(frozen=True)
class Bucket:
    """A part of a bucket that nothing else uses."""

    endpoint: str
    access_key: str
    secret_key: str
    name: str
    prefix: str

    @property
    def address(self) -> str:
        return f"s3://{self.name}/{self.prefix}"

    @property
    def environment(self) -> Mapping[str, str]:
        """The settings of a service whose storage this is."""
        return {
            "SPINDLE_STORAGE": self.address,
            "SPINDLE_S3_ENDPOINT": self.endpoint,
            "SPINDLE_S3_ACCESS_KEY_ID": self.access_key,
            "SPINDLE_S3_SECRET_ACCESS_KEY": self.secret_key,
            **NO_METADATA,
        }

    @property
    def settings(self) -> dict[str, Any]:
        """The same as arguments of Settings."""
        return {
            "storage": self.address,
            "s3_endpoint": self.endpoint,
            "s3_access_key_id": self.access_key,
            "s3_secret_access_key": self.secret_key,
        }

    @property
    def user_environment(self) -> Mapping[str, str]:
        """The variables of an AWS credential that reaches the bucket."""
        return {
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": self.endpoint,
            **NO_METADATA,
        }

    @cached_property
    def client(self) -> Any:
        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id=self.access_key,
            aws_secret_access_key=self.secret_key,
            region_name="us-east-1",
            config=Config(s3={"addressing_style": "path"}),
        )

    @property
    def credential(self) -> dict[str, str]:
        """The body of a cloud credential that reaches the bucket."""
        return {
            "provider": "AWS",
            "accessKeyId": self.access_key,
            "secretAccessKey": self.secret_key,
            "region": "us-east-1",
            "endpoint": self.endpoint,
        }

    def create_other(self) -> Bucket:
        """A new bucket on the same server."""
        other = replace(self, name=f"spindle-{uuid4().hex[:12]}", prefix="mine")
        self.client.create_bucket(Bucket=other.name)
        return other

    def part(self, name: str) -> Bucket:
        return replace(self, prefix=f"{self.prefix}/{name}")

    def list(self, folder: str = "") -> list[str]:
        """The keys below a folder, without the prefix."""
        start = f"{self.prefix}/{folder}"
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.name, Prefix=start)
        keys = [each["Key"] for page in pages for each in page.get("Contents", ())]
        return [key.removeprefix(f"{self.prefix}/") for key in keys if not key.endswith("/")]

    def put(self, key: str, content: bytes) -> str:
        self.client.put_object(Bucket=self.name, Key=f"{self.prefix}/{key}", Body=content)
        return f"{self.address}/{key}"

    def get(self, key: str) -> bytes:
        return self.client.get_object(Bucket=self.name, Key=f"{self.prefix}/{key}")["Body"].read()


def find_bucket() -> Bucket | None:
    """A new prefix of the bucket that the environment names."""
    endpoint = os.environ.get(f"{VARIABLE}ENDPOINT")
    if not endpoint:
        return None
    access_key, secret_key = os.environ[f"{VARIABLE}ACCESS_KEY"], os.environ[f"{VARIABLE}SECRET_KEY"]
    return Bucket(endpoint, access_key, secret_key, os.environ[f"{VARIABLE}BUCKET"], f"test-{uuid4().hex[:12]}")


def delete_bucket(bucket: Bucket) -> None:
    pages = bucket.client.get_paginator("list_objects_v2").paginate(Bucket=bucket.name)
    for key in [each["Key"] for page in pages for each in page.get("Contents", ())][::-1]:
        bucket.client.delete_object(Bucket=bucket.name, Key=key)
    bucket.client.delete_bucket(Bucket=bucket.name)


def get_bucket() -> Bucket:
    bucket = find_bucket()
    if bucket is None:
        pytest.skip(f"no S3: {VARIABLE}ENDPOINT is not set")
    return bucket
