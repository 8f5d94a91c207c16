"""Where an instance keeps its files and rows, and for how long."""

from __future__ import annotations

import re
from pathlib import Path

from pydantic import Field, SecretStr, field_validator
from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from core.infra.settings.area import Area, CommaSeparated

STORAGE_ADDRESS = re.compile(r"s3[an]?://[a-zA-Z0-9][\w.-]+(/[^/]+)*/?")


class StorageSettings(Area):
    """Storage."""

    data: Path = Field(default=Path(".spindle"), description="Data folder: database, keys, storage, logs.")
    address: str | None = Field(
        alias="storage",
        default=None,
        description="Storage of files: s3://bucket/prefix, or a folder; DATA/storage when unset.",
    )
    s3_endpoint: str | None = Field(
        default=None, description="Address of the S3 server; AWS_ENDPOINT_URL, or Amazon's, when unset."
    )
    s3_region: str | None = Field(default=None, description="Region of the bucket; AWS_REGION when unset.")
    s3_path_style: bool | None = Field(
        default=None, description="Whether the bucket is in the path, not the host; when unset, on other servers."
    )
    s3_access_key_id: str | None = Field(
        default=None, description="Access key of the storage; the usual AWS environment and files when unset."
    )
    s3_secret_access_key: SecretStr | None = Field(default=None, description="Secret key of the storage.")
    s3_session_token: SecretStr | None = Field(default=None, description="Token of temporary keys of the storage.")

    @field_validator("address")
    @classmethod
    def _check_address(cls, value: str | None) -> str | None:
        if value and "://" in value and not STORAGE_ADDRESS.fullmatch(value):
            sentence = f"SPINDLE_STORAGE: '{value[:200]}' is neither s3://bucket/prefix nor a folder."
            raise ValueError(sentence)
        return value or None


class FileSettings(Area):
    """Files and pages."""

    upload_gigabytes: float = Field(
        default=4, gt=0, description="Largest upload of a dataset, also after decompression."
    )
    removed_files_hours: float = Field(
        default=24, gt=0, description="Hours between the removal of a dataset's version and that of its files."
    )
    page_kept_days: float = Field(default=30, gt=0, description="Days after which a fetched page is deleted.")
    page_gigabytes: float = Field(
        default=10, gt=0, description="Most that an organization's fetched pages may take; the oldest go first."
    )
    kept_file_gigabytes: float = Field(
        default=100, gt=0, description="Most that the images which an organization's executions share may take."
    )
    local_folders: CommaSeparated = Field(
        default=(),
        description="Folders of this machine that pipelines may read and write; with several organizations, the folder "
        "of an organization's slug in each.",
    )

    @property
    def upload_bytes(self) -> int:
        return int(self.upload_gigabytes * 1e9)


class RetentionSettings(Area, alias_generator="retention_{}".format):
    """Retention."""

    folder_days: float = Field(
        default=7, gt=0, description="Days after its end that an execution's spec, scratch and checkpoints are kept."
    )
    log_days: float = Field(
        default=30, gt=0, description="Days after its end that an execution's logs and list of failed pages are kept."
    )
    message_days: float = Field(
        default=7,
        ge=1,
        description="Days that events, deliveries to webhooks, calls of cron jobs and packages are kept.",
    )
    audit_days: float = Field(default=365, ge=1, description="Days that entries of the audit log are kept.")
    run_days: int = Field(default=30, ge=1, description="Days that Dagster's runs, their events and ticks are kept.")


class DatabaseSettings(Area, alias_generator="database_{}".format):
    """Database."""

    url: SecretStr | None = Field(default=None, description="SQLAlchemy URL; SQLite in the data folder when unset.")
    migrate: bool = Field(
        alias="migrate",
        default=True,
        description="Bring an older database up to date at start; otherwise say what to run.",
    )

    api_connections: int = Field(
        default=16, ge=2, description="Most connections of the API to PostgreSQL, shared by its processes."
    )
    launcher_connections: int = Field(
        default=10, ge=2, description="Most connections of the launcher to PostgreSQL, and as many to Dagster's tables."
    )
    dagster_connections: int = Field(
        default=4, ge=2, description="Most connections of the Dagster UI, and of the daemon and the code server each."
    )

    @field_validator("url")
    @classmethod
    def _check_url(cls, value: SecretStr | None) -> SecretStr | None:
        try:
            url = make_url(value.get_secret_value()) if value else None
        except (ArgumentError, ValueError):  # of a port too; both quote the password
            url, sentence = None, "it is no address of a database"
        else:
            known = url is None or url.get_backend_name() in ("postgresql", "sqlite")
            sentence = "" if known else "it names neither PostgreSQL nor SQLite"
            if url is not None and url.port is not None and not 0 < url.port < 65536:
                sentence = f"its port is {url.port}, and the largest is 65535"
        if sentence:
            raise ValueError(f"SPINDLE_DATABASE_URL: {sentence}. Write postgresql://user:password@host:5432/name.")
        return value
