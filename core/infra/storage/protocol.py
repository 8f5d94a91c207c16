"""The storage protocol and the layout of its keys.

installation.json
<organization>/executions/<execution>/<attempt>/spec.json
<organization>/executions/<execution>/<attempt>/output/...
<organization>/executions/<execution>/<attempt>/saves/<number>/...
<organization>/executions/<execution>/<attempt>/checkpoints/<step>/...
<organization>/executions/<execution>/<attempt>/scratch/...
<organization>/executions/<execution>/<attempt>/driver.log
<organization>/executions/<execution>/<attempt>/failures.jsonl
<organization>/executions/<execution>/files/<sha-256>
<organization>/executions/<execution>/rows.jsonl
<organization>/files/<sha-256>
<organization>/datasets/<dataset>/<version>/part-00000.parquet
<organization>/tables/<name>/<format>/...
<organization>/known/<job>/<execution>-<attempt>/pages.parquet
<organization>/packages/<sha-256>.zip
<organization>/queries/<query>.parquet
<organization>/trainings/<training>/log
<organization>/trainings/<training>/model/...
<organization>/models/...
<organization>/pages
spark-events/<execution>_<attempt>.zstd
plugins/<sha-256>/<wheel>, manifest.json
libraries/<sha-256>/<wheel>, manifest.json
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import BinaryIO, Literal, Protocol

from pipelines.filesystem import S3Access

Reader = Literal["spark", "sql", "signed"]
LOG, FAILURES, GIVEN_ROWS = "driver.log", "failures.jsonl", "rows.jsonl"
MANIFEST = "manifest.json"  # beside a wheel


class NotStored(Exception):
    """There is no file under this key."""


class InvalidKey(Exception):
    """The key is not relative, is not normalized, or leads out of the storage."""


@dataclass(frozen=True, slots=True)
class StoredFile:
    """One file: its key, its size and the time of its last write."""

    key: str
    size_bytes: int
    modified_at: datetime


class Storage(Protocol):
    """Files under keys like `a/b/c.parquet`.

    A folder is the common prefix of the keys below it and exists only through them. Every method raises InvalidKey for
    a key that is absolute, has empty, `.` or `..` segments, or leads out of the storage through a link.
    """

    def open(self, key: str) -> BinaryIO:
        """Open a file for reading as a seekable stream, which the caller closes. Raises NotStored."""
        ...

    def put(self, key: str, content: BinaryIO) -> StoredFile:
        """Store the rest of the stream under the key, in place of an earlier file.

        Readers see the earlier file or the whole new one. On return the file survives a power failure.
        """
        ...

    def list(self, folder: str) -> Iterator[StoredFile]:
        """Yield the files below a folder at any depth, ordered by key."""
        ...

    def delete(self, key: str) -> None:
        """Delete one file. Does nothing when it does not exist."""
        ...

    def url_for(self, key: str, reader: Reader) -> str:
        """Return the address of a file or folder for Spark or for the SQL engine. The key need not exist.

        A `signed` address is for a process without credentials, which can read that one file for some hours.
        """
        ...

    def export_access(self) -> S3Access | None:
        """Return what other processes and libraries need to reach the files, with secrets; None for local files."""
        ...

    def find_key(self, url: str) -> str | None:
        """Return the key of an address that `url_for` may have returned; None for an address outside of it."""
        ...

    def check(self) -> None:
        """Raise Unavailable with the reason when the storage cannot be read and written."""
        ...


def find_data_files(storage: Storage, folder: str) -> list[StoredFile]:
    """Return the data files in a folder by key; names of Spark's own notes begin with an underscore or a point.

    A folder for the values of a column has a `=` in its name.
    """
    start = len(folder) + 1
    files = ((file, file.key[start:].split("/")) for file in storage.list(folder))
    return [file for file, names in files if not any(name.startswith(("_", ".")) and "=" not in name for name in names)]


def execution_key(organization_id: str, execution_id: str, attempt: int) -> str:
    return f"{executions_key(organization_id)}/{execution_id}/{attempt}"


def spec_key(organization_id: str, execution_id: str, attempt: int) -> str:
    return f"{execution_key(organization_id, execution_id, attempt)}/spec.json"


def output_key(organization_id: str, execution_id: str, attempt: int) -> str:
    """Return the key of the output folder of one attempt, which nothing else writes to."""
    return f"{execution_key(organization_id, execution_id, attempt)}/output"


def saves_key(organization_id: str, execution_id: str, attempt: int) -> str:
    """Return the key of the folder for the saves of one attempt, with a numbered folder for every save."""
    return f"{execution_key(organization_id, execution_id, attempt)}/saves"


def checkpoints_key(organization_id: str, execution_id: str, attempt: int) -> str:
    """Return the key of the folder for the rows that one attempt keeps for later ones, by step."""
    return f"{execution_key(organization_id, execution_id, attempt)}/checkpoints"


def scratch_key(organization_id: str, execution_id: str, attempt: int) -> str:
    """Return the key of the folder for files that the tasks of one attempt share while it runs."""
    return f"{execution_key(organization_id, execution_id, attempt)}/scratch"


def used_pages_key(organization_id: str, execution_id: str, attempt: int) -> str:
    """Return the key of the folder that lists the stored pages which one attempt has used."""
    return f"{execution_key(organization_id, execution_id, attempt)}/pages"


def list_used_pages(organization_id: str, execution_id: str, attempts: int) -> list[str]:
    """Return the keys of these folders of all attempts."""
    return [used_pages_key(organization_id, execution_id, number + 1) for number in range(attempts)]


def given_rows_key(organization_id: str, execution_id: str) -> str:
    """Return the key of the rows that the request of an execution gave, for all of its attempts."""
    return f"{executions_key(organization_id)}/{execution_id}/{GIVEN_ROWS}"


def files_key(organization_id: str, execution_id: str) -> str:
    """Return the key of the folder for the files that an execution downloads, by the hash of their content."""
    return f"{executions_key(organization_id)}/{execution_id}/files"


def kept_files_key(organization_id: str) -> str:
    """Return the key of the folder for files that an organization's executions share, by the hash of their content."""
    return f"{organization_id}/files"


def log_key(organization_id: str, execution_id: str, attempt: int) -> str:
    return f"{execution_key(organization_id, execution_id, attempt)}/{LOG}"


def event_logs_key() -> str:
    """Return the key of the folder for Spark's event logs of all organizations, which a history server reads."""
    return "spark-events"


def event_log_key(execution_id: str, attempt: int) -> str:
    return f"{event_logs_key()}/{execution_id}_{attempt}.zstd"


def parse_event_log_key(key: str) -> str | None:
    """Return the id of the execution that an event log belongs to; None for other files of the folder."""
    execution_id, separator, _ = key.rpartition("/")[2].partition("_")
    return execution_id if separator else None


def failures_key(organization_id: str, execution_id: str, attempt: int) -> str:
    """Return the key of the list of pages that one attempt could not fetch."""
    return f"{execution_key(organization_id, execution_id, attempt)}/{FAILURES}"


def datasets_key(organization_id: str) -> str:
    """Return the key of the folder for the files of uploaded datasets."""
    return f"{organization_id}/datasets"


def version_key(organization_id: str, dataset_id: str, version_id: str) -> str:
    """Return the key of the folder of one uploaded version, which nothing else writes to."""
    return f"{datasets_key(organization_id)}/{dataset_id}/{version_id}"


def tables_key(organization_id: str) -> str:
    """Return the key of the folder for tables, which have a log of their versions."""
    return f"{organization_id}/tables"


def table_key(organization_id: str, name: str, format_: str) -> str:
    """Return the key of the folder of a table, which all executions that write it share."""
    return f"{tables_key(organization_id)}/{name}/{format_}"


def known_key(organization_id: str) -> str:
    """Return the key of the folder for the pages that jobs know."""
    return f"{organization_id}/known"


def known_pages_key(organization_id: str, job_id: str, execution_id: str, attempt: int) -> str:
    """Return the key of the folder that one attempt writes the known pages of its job to."""
    return f"{known_key(organization_id)}/{job_id}/{execution_id}-{attempt}"


def executions_key(organization_id: str) -> str:
    """Return the key of the folder for the files of an organization's executions."""
    return f"{organization_id}/executions"


def packages_key(organization_id: str) -> str:
    """Return the key of the folder that holds an organization's packages."""
    return f"{organization_id}/packages"


def package_key(organization_id: str, digest: str) -> str:
    """Return the key of a package by its content, so that equal packages are one file."""
    return f"{packages_key(organization_id)}/{digest}.zip"


def plugin_key(digest: str, name: str) -> str:
    """Return the key of a file of an uploaded plugin; only the service reads it, whichever organizations have it."""
    return f"plugins/{digest}/{name}"


def library_key(digest: str, name: str) -> str:
    """Return the key of an uploaded build of the engine, which belongs to the operator."""
    return f"libraries/{digest}/{name}"


def query_key(organization_id: str, query_id: str) -> str:
    """Return the key of the rows of a query that ran in the background."""
    return f"{organization_id}/queries/{query_id}.parquet"


def selectors_key(organization_id: str) -> str:
    """Return the key of the folder for selectors that prompts were proven to mean, by host."""
    return f"{organization_id}/selectors"


def training_key(organization_id: str, training_id: str) -> str:
    """Return the key of the folder for the log and the model of a training."""
    return f"{organization_id}/trainings/{training_id}"


def models_key(organization_id: str) -> str:
    """Return the key of the folder for trained models that users store by name."""
    return f"{organization_id}/models"


def pages_key(organization_id: str) -> str:
    """Return the key of the page cache that an organization's executions share."""
    return f"{organization_id}/pages"
