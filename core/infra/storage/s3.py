"""Storage in a bucket of S3, or of a server with its protocol, through boto3."""

from __future__ import annotations

import io
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any, BinaryIO, cast
from uuid import uuid4

import boto3
from boto3.s3.transfer import TransferConfig
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionClosedError,
    ConnectionError,
    ConnectTimeoutError,
    EndpointConnectionError,
    HTTPClientError,
    IncompleteReadError,
    NoCredentialsError,
    PartialCredentialsError,
    ResponseStreamingError,
)

from core.errors import Unavailable
from core.infra.storage.protocol import InvalidKey, NotStored, Reader, StoredFile
from pipelines.filesystem import S3Access, split_address

CODE = "storage-unavailable"
DEFAULT_REGION = "us-east-1"
PART_BYTES = 8 * 2**20
PARTS_AT_ONCE = 4
READ_BYTES = 2**18
SKIPPED_BYTES = 2**16  # a short gap is read, a longer one costs a new request
READ_RETRIES = 3
LINK_SECONDS = 12 * 3600
CONNECT_SECONDS, ANSWER_SECONDS, ATTEMPTS = 5, 30, 3
PROBE = ".check"

_MISSING = frozenset({"NoSuchKey", "404", "NotFound"})
_REASONS = {
    "NoSuchBucket": "its bucket does not exist. Create it, or change SPINDLE_STORAGE",
    "XAdminUserNotFound": "it does not know the service's access key. Change SPINDLE_S3_ACCESS_KEY_ID",  # of versitygw
    "InvalidAccessKeyId": "it does not know the service's access key. Change SPINDLE_S3_ACCESS_KEY_ID",
    "SignatureDoesNotMatch": "it refuses the service's secret key. Change SPINDLE_S3_SECRET_ACCESS_KEY",
    "RequestTimeTooSkewed": "its clock and that of this machine differ by more than it allows. Set the clock",
    "AccessDenied": "the service's key may not read, write, list and delete in its bucket. Allow it to",
    "ExpiredToken": "the service's credentials have expired. Renew them",
    "PermanentRedirect": "its bucket is in another region. Change SPINDLE_S3_REGION",
    "AuthorizationHeaderMalformed": "its bucket is in another region. Change SPINDLE_S3_REGION",
}
_NO_ANSWER = "it does not answer"


class S3Storage:
    """Implements Storage below `prefix` of a bucket."""

    def __init__(
        self,
        bucket: str,
        prefix: str = "",
        *,
        endpoint: str | None = None,
        region: str | None = None,
        path_style: bool | None = None,
        access_key_id: str | None = None,
        secret_access_key: str | None = None,
        session_token: str | None = None,
    ) -> None:
        self._bucket = bucket
        self._prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        self._session = boto3.Session(
            aws_access_key_id=access_key_id,
            aws_secret_access_key=secret_access_key,
            aws_session_token=session_token,
            region_name=region,
        )
        self._region = self._session.region_name or DEFAULT_REGION
        self._path_style = path_style
        self._client: Any = self._create_client(endpoint)
        self._transfer = TransferConfig(
            multipart_threshold=PART_BYTES, multipart_chunksize=PART_BYTES, max_concurrency=PARTS_AT_ONCE
        )
        cast(Any, self._transfer).max_in_memory_upload_chunks = PARTS_AT_ONCE

    def open(self, key: str) -> BinaryIO:
        reader = _ObjectReader(self._client, self._bucket, self._name(key), key)
        return cast(BinaryIO, io.BufferedReader(reader, READ_BYTES))

    def put(self, key: str, content: BinaryIO) -> StoredFile:
        counted = _CountedStream(content)
        with _convert_errors():
            self._client.upload_fileobj(counted, self._bucket, self._name(key), Config=self._transfer)
        return StoredFile(key, counted.size, datetime.now(UTC))

    def list(self, folder: str) -> Iterator[StoredFile]:
        prefix = f"{self._name(folder)}/"
        with _convert_errors():
            pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=prefix)
            for page in pages:
                for found in page.get("Contents", ()):
                    if not found["Key"].endswith("/"):  # Hadoop marks folders by empty objects
                        key = found["Key"].removeprefix(self._prefix)
                        yield StoredFile(key, found["Size"], found["LastModified"])

    def delete(self, key: str) -> None:
        name = self._name(key)
        with _convert_errors():
            self._client.delete_object(Bucket=self._bucket, Key=name)

    def url_for(self, key: str, reader: Reader) -> str:
        name = self._name(key)
        if reader == "signed":
            with _convert_errors():
                where = {"Bucket": self._bucket, "Key": name}
                url: str = self._client.generate_presigned_url("get_object", where, ExpiresIn=LINK_SECONDS)
            address, mark, signature = url.partition("?")
            return f"{address.replace('%3D', '=')}{mark}{signature}"  # readers find columns in the names of folders
        return f"s3://{self._bucket}/{name}"

    def find_key(self, url: str) -> str | None:
        bucket, name = split_address(url) or ("", "")
        if bucket != self._bucket or not name.startswith(self._prefix):
            return None
        return name.removeprefix(self._prefix)

    def check(self) -> None:
        """Raise Unavailable unless the bucket can be listed, written, read and deleted from."""
        name = f"{self._prefix}{PROBE}/{uuid4().hex}"
        with _convert_errors():
            self._client.list_objects_v2(Bucket=self._bucket, Prefix=self._prefix, MaxKeys=1)
            self._client.put_object(Bucket=self._bucket, Key=name, Body=b"")
            self._client.get_object(Bucket=self._bucket, Key=name)["Body"].close()
            self._client.delete_object(Bucket=self._bucket, Key=name)

    def export_access(self) -> S3Access:
        """Return what another process needs to read and write the bucket, with the secrets."""
        with _convert_errors():
            credentials = self._session.get_credentials()
            if credentials is None:
                raise NoCredentialsError
            frozen = credentials.get_frozen_credentials()
        endpoint: str = self._client.meta.endpoint_url
        return S3Access(
            bucket=self._bucket,
            endpoint=None if endpoint.endswith(".amazonaws.com") else endpoint,
            region=self._region,
            path_style=self._uses_path_style(endpoint),
            access_key_id=frozen.access_key or "",
            secret_access_key=frozen.secret_key or "",
            session_token=frozen.token,
        )

    def _name(self, key: str) -> str:
        if not key or any(part in ("", ".", "..") for part in key.split("/")) or "\0" in key:
            raise InvalidKey(key)
        return f"{self._prefix}{key}"

    def _create_client(self, endpoint: str | None) -> Any:
        def create(style: str) -> Any:
            config = Config(
                signature_version="s3v4",
                connect_timeout=CONNECT_SECONDS,
                read_timeout=ANSWER_SECONDS,
                retries={"mode": "standard", "max_attempts": ATTEMPTS},
                s3={"addressing_style": style},
                # older servers know no other checksums than those that are required
                request_checksum_calculation="when_required",
                response_checksum_validation="when_required",
            )
            return self._session.client("s3", region_name=self._region, endpoint_url=endpoint, config=config)

        client: Any = create("path" if self._path_style else "auto")
        if self._path_style is None and self._uses_path_style(client.meta.endpoint_url):
            client = create("path")
        return client

    def _uses_path_style(self, endpoint: str) -> bool:
        """Return the setting, or without one whether the server is another one than Amazon's."""
        return not endpoint.endswith(".amazonaws.com") if self._path_style is None else self._path_style


class _CountedStream:
    """A stream that can only be read, from its position on, with the number of bytes so far."""

    def __init__(self, content: BinaryIO) -> None:
        self._content = content
        self.size = 0

    def read(self, size: int = -1) -> bytes:
        data = self._content.read(size)
        self.size += len(data)
        return data


class _ObjectReader(io.RawIOBase):
    """One object, as it was when this was created. Reading continues after a lost connection."""

    def __init__(self, client: Any, bucket: str, name: str, key: str) -> None:
        super().__init__()
        self._client = client
        self._where = {"Bucket": bucket, "Key": name}
        self._key = key
        self._body, self._at = None, 0  # the open answer, and its position
        self._position = 0
        answer = self._get()
        self._where["IfMatch"] = answer["ETag"]
        self._body, self._size = answer["Body"], answer["ContentLength"]

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        if start + offset < 0:
            raise ValueError("negative position")
        self._position = start + offset
        return self._position

    def readinto(self, buffer: Any, /) -> int:
        if self._position >= self._size:
            return 0
        data = b""
        for attempt in range(READ_RETRIES + 1):
            try:
                data = self._read(len(buffer))
                break
            except (ConnectionClosedError, HTTPClientError, IncompleteReadError, OSError) as error:
                self._drop()
                if attempt == READ_RETRIES:
                    raise make_unavailable(error) from error
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._drop()
        super().close()

    def _read(self, size: int) -> bytes:
        gap = self._position - self._at
        if self._body is not None and not 0 <= gap <= SKIPPED_BYTES:
            self._drop()
        if self._body is None:
            self._body, self._at = self._get(Range=f"bytes={self._position}-")["Body"], self._position
            gap = 0
        if gap:
            self._at += len(self._body.read(gap))
        data: bytes = self._body.read(size)
        if not data:
            raise IncompleteReadError(actual_bytes=self._at, expected_bytes=self._size)
        self._at += len(data)
        self._position = self._at
        return data

    def _get(self, **options: str) -> Any:
        try:
            with _convert_errors():
                return self._client.get_object(**self._where, **options)
        except _Missing as error:
            if "IfMatch" in self._where:  # it was there when this was created
                raise Unavailable("A file was replaced or deleted while it was read.", code=CODE) from error
            raise NotStored(self._key) from error

    def _drop(self) -> None:
        body, self._body = self._body, None
        if body is not None:
            with suppress(Exception):  # the connection may be broken already
                body.close()


class _Missing(Exception):
    """The object does not exist, or is another one by now."""


@contextmanager
def _convert_errors() -> Generator[None]:
    """Convert errors of boto3 to Unavailable, and to _Missing."""
    try:
        yield
    except ClientError as error:
        answer = cast(dict[str, Any], error.response)
        code, status = answer.get("Error", {}).get("Code"), answer["ResponseMetadata"].get("HTTPStatusCode")
        if code in _MISSING or status == 412:
            raise _Missing from error
        raise make_unavailable(error) from error
    except BotoCoreError as error:
        raise make_unavailable(error) from error


def make_unavailable(error: BaseException) -> Unavailable:
    """Return the error for callers: its sentence names no address and no key."""
    return Unavailable(f"The service's storage cannot be used: {_find_reason(error)}.", code=CODE)


def _find_reason(error: BaseException) -> str:
    if isinstance(error, ClientError):
        answer = cast(dict[str, Any], error.response)
        code = str(answer.get("Error", {}).get("Code"))
        return _REASONS.get(code, f"it answered {answer['ResponseMetadata'].get('HTTPStatusCode', code)}")
    if isinstance(error, NoCredentialsError | PartialCredentialsError):
        return "it needs a key. Set SPINDLE_S3_ACCESS_KEY_ID and SPINDLE_S3_SECRET_ACCESS_KEY"
    answers = EndpointConnectionError | ConnectTimeoutError | ConnectionError | HTTPClientError | ResponseStreamingError
    return _NO_ANSWER if isinstance(error, answers | OSError) else "its settings are not valid"
