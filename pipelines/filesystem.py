"""Files and folders by their address: a path of this machine, or s3://bucket/key."""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from errno import EDQUOT, ENOSPC
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import unquote, urlsplit

from pipelines.errors import RunError, StorageAway

if TYPE_CHECKING:  # the service takes addresses apart without it
    from pyarrow.fs import FileSystem

STORAGE_ACCESS = "SPINDLE_STORAGE_ACCESS"  # the variable with the access to the service's own bucket, as JSON
DEFAULT_REGION = "us-east-1"
_BUCKET_ACCESS = "SPINDLE_BUCKET_"  # the beginning of variables with the access to one bucket of a user, as JSON
_SCHEME = re.compile(r"s3[an]?://", re.IGNORECASE)
# the formats of local tables, by the ends of their files' names
TABLE_FILES = {
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".parquet": "parquet",
    ".avro": "avro",
    ".orc": "orc",
}
_COMPRESSIONS = (".gz", ".bz2", ".zst", ".lz4", ".snappy")
_CONNECT_SECONDS, _ANSWER_SECONDS = 5, 30
_FROM_STORAGE = re.compile(r"s3a\.|awssdk|AWS Error|\bS3AFileSystem\b")
_BUCKET = re.compile(r"s3[an]?://([a-z0-9][a-z0-9.-]+)|in bucket '([a-z0-9.-]+)'")
_REFUSALS = (
    (r"NoSuchBucket|UnknownStoreException|NO_SUCH_BUCKET|Bucket \S+ does not exist", "it does not exist"),
    (r"InvalidAccessKeyId|XAdminUserNotFound|INVALID_ACCESS_KEY_ID", "its server does not know the access key"),
    (r"SignatureDoesNotMatch|SIGNATURE_DOES_NOT_MATCH", "its server refuses the secret key"),
    (r"RequestTimeTooSkewed|REQUEST_TIME_TOO_SKEWED", "the clocks of its server and of this service differ too much"),
    (r"ExpiredToken|InvalidToken", "the credential has expired"),
    (r"AccessDenied|ACCESS_DENIED|Forbidden|[Ss]tatus [Cc]ode:? 403", "the credential or its secret key is refused"),
    (r"PermanentRedirect|AuthorizationHeaderMalformed|MovedPermanently", "it is in another region than the credential"),
    (r"ClassNotFoundException: Class org\.apache\.hadoop\.fs\.s3a", "Spark was started without the library s3"),
)
_AWAY = re.compile(
    r"Connect(ion)?Exception|Connection (refused|reset)|ConnectTimeout|UnknownHost|SocketTimeout|SocketException"
    r"|NETWORK_CONNECTION|NoHttpResponse|Unable to execute HTTP request|AWSClientIOException|SLOW_DOWN|SlowDown"
    r"|AWSServiceIOException|AWSStatus500Exception|SERVICE_UNAVAILABLE|INTERNAL_FAILURE|Premature end|REQUEST_TIMEOUT"
)


@dataclass(frozen=True, slots=True)
class S3Access:
    """How to reach a bucket; without an endpoint it is Amazon's. Without a bucket it is for all others."""

    bucket: str | None
    endpoint: str | None
    region: str
    path_style: bool
    access_key_id: str = field(repr=False)
    secret_access_key: str = field(repr=False)
    session_token: str | None = field(repr=False)

    @property
    def secrets(self) -> tuple[str, ...]:
        return tuple(filter(None, (self.access_key_id, self.secret_access_key, self.session_token)))

    @classmethod
    def from_json(cls, text: str) -> Self:
        return cls(**json.loads(text))

    def to_json(self) -> str:
        return json.dumps(asdict(self))


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file directly in a folder."""

    name: str
    path: str
    size: int


def split_address(address: str) -> tuple[str, str] | None:
    """Return bucket and key of an s3://, s3a:// or s3n:// address; None for another one."""
    match = _SCHEME.match(address)
    if match is None:
        return None
    bucket, _, key = address[match.end() :].partition("/")
    return bucket, key


def has_address(text: str) -> bool:
    """Return whether a text contains an s3:// address."""
    return _SCHEME.search(text) is not None


def load_storage_access(environment: Mapping[str, str] | None = None) -> S3Access | None:
    """Return the access to the service's own bucket; None where its storage is a folder."""
    text = (os.environ if environment is None else environment).get(STORAGE_ACCESS)
    return S3Access.from_json(text) if text else None


def load_user_access() -> S3Access | None:
    """Return the access to other buckets by the AWS credential in the environment; None without one."""
    return make_user_access(os.environ)


def make_user_access(variables: Mapping[str, str], bucket: str | None = None) -> S3Access | None:
    """Return the access that AWS's usual variables give to a bucket, or to all; None without keys."""
    key, secret = variables.get("AWS_ACCESS_KEY_ID"), variables.get("AWS_SECRET_ACCESS_KEY")
    if not key or not secret:
        return None
    endpoint = variables.get("AWS_ENDPOINT_URL_S3") or variables.get("AWS_ENDPOINT_URL") or None
    region = variables.get("AWS_REGION") or variables.get("AWS_DEFAULT_REGION") or DEFAULT_REGION
    is_other = endpoint is not None and not endpoint.rstrip("/").endswith(".amazonaws.com")
    return S3Access(bucket, endpoint, region, is_other, key, secret, variables.get("AWS_SESSION_TOKEN") or None)


def name_bucket_variable(bucket: str) -> str:
    """Return the name of the variable with the access to a bucket for which a pipeline names a credential."""
    return f"{_BUCKET_ACCESS}{bucket.encode().hex().upper()}"


def parse_bucket_variable(name: str) -> str | None:
    """Return the bucket of a name by `name_bucket_variable`; None for the name of another variable."""
    return bytes.fromhex(name.removeprefix(_BUCKET_ACCESS)).decode() if is_bucket_variable(name) else None


def is_bucket_variable(name: str) -> bool:
    return name.startswith(_BUCKET_ACCESS)


def list_bucket_access(environment: Mapping[str, str] | None = None) -> list[S3Access]:
    """Return the access to the buckets for which a pipeline names credentials."""
    variables = os.environ if environment is None else environment
    return [S3Access.from_json(text) for name, text in variables.items() if is_bucket_variable(name)]


def find_access(bucket: str) -> S3Access:
    """Return the access to a bucket; raise RunError without one."""
    storage = load_storage_access()
    if storage is not None and storage.bucket == bucket:
        return storage
    if text := os.environ.get(name_bucket_variable(bucket)):
        return S3Access.from_json(text)
    if user := load_user_access():
        return user
    raise RunError(f"'s3://{bucket}' needs a cloud credential of the provider AWS")


def open_filesystem(address: str, access: S3Access | None = None) -> tuple[FileSystem, str]:
    """Return the file system of an address, and the path in it; by default with the access in the environment."""
    from pyarrow.fs import LocalFileSystem

    if parts := split_address(address):
        return _open_s3(access or find_access(parts[0])), "/".join(parts).rstrip("/")
    path = unquote(urlsplit(address).path) if address.startswith("file:") else address
    return LocalFileSystem(), path


def is_local(address: str) -> bool:
    return split_address(address) is None


def find_table_format(path: str) -> str | None:
    """Return the format of a local table by the name of its file, or by the files in its folder; None if unknown."""
    if "://" in path:
        return None
    folder = Path(path)
    if (folder / "_delta_log").is_dir():
        return "delta"
    if next(folder.glob("metadata/*.metadata.json"), None) is not None:
        return "iceberg"
    names = [folder.name]
    if folder.is_dir():
        names = sorted(each.name for each in folder.rglob("*") if each.is_file() and not _is_note(each.name))
    suffixes = [each for each in Path(names[0]).suffixes if each not in _COMPRESSIONS] if names else []
    return TABLE_FILES.get(suffixes[-1]) if suffixes else None


def list_data_files(folder: str, recursive: bool = False, access: S3Access | None = None) -> list[StoredFile]:
    """Return the files directly in a folder by name, without Spark's and Hadoop's own. The folder may be missing.

    With `recursive` also those in folders below it, by their path from it.
    """
    from pyarrow.fs import FileSelector, FileType

    files, path = open_filesystem(folder, access)
    found: list[Any] = files.get_file_info(FileSelector(path, allow_not_found=True, recursive=recursive))
    data = ((each.path[len(path.rstrip("/")) + 1 :], each) for each in found if each.type == FileType.File)
    return sorted(
        (
            StoredFile(name, f"{folder.rstrip('/')}/{name}", each.size)
            for name, each in data
            if not any(_is_note(part) for part in name.split("/"))
        ),
        key=lambda each: each.name,
    )


def _is_note(name: str) -> bool:
    """Return whether Spark skips a file or folder of this name; a folder for values of a column has a `=`."""
    return name.startswith(("_", ".")) and "=" not in name


def has_file(address: str, access: S3Access | None = None) -> bool:
    from pyarrow.fs import FileType

    files, path = open_filesystem(address, access)
    return files.get_file_info(path).type == FileType.File


def find_write_time(address: str) -> float | None:
    """Return the time of a file's last write, in seconds since 1970; None when it does not exist."""
    from pyarrow.fs import FileType

    files, path = open_filesystem(address)
    found = files.get_file_info(path)
    return found.mtime.timestamp() if found.type == FileType.File and found.mtime else None


def read_file(address: str, access: S3Access | None = None) -> bytes | None:
    """Return the content of a file; None when it does not exist."""
    files, path = open_filesystem(address, access)
    try:
        with files.open_input_stream(path) as stream:
            return stream.read()
    except FileNotFoundError:
        return None


def is_disk_full(error: BaseException | None) -> bool:
    return isinstance(error, OSError) and error.errno in (EDQUOT, ENOSPC)


def write_file(address: str, content: bytes, access: S3Access | None = None) -> None:
    """Write a file that is there as a whole or not at all, in place of an earlier one."""
    if is_local(address):
        _write_local(Path(open_filesystem(address)[1]), content)
        return
    files, path = open_filesystem(address, access)
    with files.open_output_stream(path) as stream:
        stream.write(content)


def create_folder(address: str) -> None:
    """Create a local folder where it is missing; a bucket needs none."""
    if is_local(address):
        Path(open_filesystem(address)[1]).mkdir(parents=True, exist_ok=True, mode=0o700)


def delete_file(address: str, access: S3Access | None = None) -> None:
    """Delete a file. Does nothing when it does not exist."""
    files, path = open_filesystem(address, access)
    with suppress(FileNotFoundError):
        files.delete_file(path)


def move_file(source: str, target: str) -> None:
    """Move a file within a bucket or this machine."""
    files, path = open_filesystem(source)
    files.move(path, open_filesystem(target)[1])


def delete_folder(address: str) -> None:
    """Delete a folder and all in it. Does nothing when it does not exist."""
    from pyarrow.fs import FileType

    files, path = open_filesystem(address)
    if files.get_file_info(path).type == FileType.Directory:
        files.delete_dir(path)


def find_storage_failure(text: str) -> RunError | None:
    """Return the failure of a storage that an error's text describes: StorageAway when the storage did not answer."""
    if not _FROM_STORAGE.search(text):
        return None
    match = _BUCKET.search(text)
    bucket = f"the bucket '{match[1] or match[2]}'" if match else "a bucket"
    for pattern, reason in _REFUSALS:
        if re.search(pattern, text):
            return RunError(f"{bucket} cannot be used: {reason}")
    if _AWAY.search(text):
        return StorageAway(f"{bucket} cannot be reached: its server did not answer, or broke off its answer")
    return None


@contextmanager
def lock_folder(folder: Path) -> Generator[None]:
    """Make a missing local folder, and let one thread of Spindle at a time write into it.

    Without locks of the file system, the block runs at once.
    """
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)  # a forked child may have the descriptor too
        os.close(descriptor)


def _write_local(path: Path, content: bytes) -> None:
    partial = path.with_name(f"{path.name}.partial")
    with partial.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    partial.rename(path)


@lru_cache(maxsize=4)
def _open_s3(access: S3Access) -> FileSystem:
    from pyarrow.fs import AwsStandardS3RetryStrategy, S3FileSystem  # only where it is needed: it starts threads

    parts = urlsplit(access.endpoint or "")
    return S3FileSystem(
        access_key=access.access_key_id,
        secret_key=access.secret_access_key,
        session_token=access.session_token,
        region=access.region,
        endpoint_override=f"{parts.netloc}{parts.path}".rstrip("/") or None,
        scheme=parts.scheme or "https",
        force_virtual_addressing=not access.path_style,
        connect_timeout=_CONNECT_SECONDS,
        request_timeout=_ANSWER_SECONDS,
        retry_strategy=AwsStandardS3RetryStrategy(max_attempts=3),
    )
