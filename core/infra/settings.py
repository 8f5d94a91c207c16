"""Settings, read once at start from the environment (prefix SPINDLE_)."""

from __future__ import annotations

import re
import shlex
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, ValidationInfo, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict
from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from pipelines.language.engines import EngineName
from pipelines.language.formats import parse_data_sources

REQUESTS_PER_MINUTE = 1000
POSTGRESQL_PORT = 5432
STORAGE_ADDRESS = re.compile(r"s3[an]?://[a-zA-Z0-9][\w.-]+(/[^/]+)*/?")
CommaSeparated = Annotated[tuple[str, ...], NoDecode]
KeyValues = Annotated[tuple[tuple[str, str], ...], NoDecode]


class Settings(BaseSettings):
    """All settings of one instance; lists are comma separated."""

    model_config = SettingsConfigDict(env_prefix="SPINDLE_", frozen=True, extra="ignore", hide_input_in_errors=True)

    data: Path = Field(default=Path(".spindle"), description="Data folder: database, keys, storage, logs.")
    storage: str | None = Field(
        default=None, description="Storage of files: s3://bucket/prefix, or a folder; DATA/storage when unset."
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
    database_url: SecretStr | None = Field(
        default=None, description="SQLAlchemy URL; SQLite in the data folder when unset."
    )
    migrate: bool = Field(
        default=True, description="Bring an older database up to date at start; otherwise say what to run."
    )
    host: str = Field(default="127.0.0.1", description="Address that the API listens on.")
    port: int = Field(default=8080, description="Port of the API.")
    api_workers: int = Field(default=1, ge=1, le=64, description="Processes that serve the API.")
    ui_port: int = Field(default=3000, description="Port of the Dagster UI, always on loopback.")
    ui_url: str | None = Field(
        default=None, description="Address that people reach the Dagster UI at; http://127.0.0.1:UI_PORT when unset."
    )
    dagster_workspace: Path | None = Field(
        default=None, description="workspace.yaml with code locations beside Spindle's; Dagster's own format."
    )
    root_path: str = Field(default="/api", description="Path that every operation hangs under.")
    service_segment: str = Field(default="svc", description="The service's own path segment.")
    tables_segment: str = Field(default="cms-tables", description="The path segment of the generic tables.")
    public_url: str | None = Field(
        default=None, description="Address that drivers reach the API at; http://host:port when unset."
    )
    secret_key: SecretStr | None = Field(
        default=None,
        min_length=32,
        description="Service key, random text; DATA/secret-key, made at first start, when unset.",
    )
    admin_key: SecretStr | None = Field(
        default=None,
        min_length=32,
        description="First admin key of a new database, random text; made and written to DATA/admin-key when unset.",
    )
    new_secret_key: SecretStr | None = Field(
        default=None, min_length=32, description="What SPINDLE_SECRET_KEY is to become, for `spindle secrets rotate`."
    )
    requests_per_minute: int = Field(
        default=REQUESTS_PER_MINUTE, ge=1, description="Requests of one API key in a clock minute."
    )
    fetch_allow_networks: CommaSeparated = Field(default=(), description="CIDRs that the fetch guard lets through.")
    fetch_contact: str | None = Field(
        default=None,
        pattern=r"^[!-'*-~]{1,200}$",
        description="A web or mail address of the operator, sent in the User-Agent.",
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
    parameter_environment: CommaSeparated = Field(
        default=(), description="Environment variables that pipelines may use as parameters."
    )
    unknown_parameters: Literal["refuse", "warn"] = Field(
        default="refuse",
        description="What becomes of an execution that sets a parameter which its pipeline does not have.",
    )
    sql_catalog: str = Field(default="spindle", description="Name of the SQL catalog.")
    sql_catalog_aliases: CommaSeparated = Field(default=("minio",), description="Names that mean the same catalog.")
    sql_timeout_seconds: float = Field(default=60, description="Longest time that one query may take.")
    sql_async_timeout_seconds: float = Field(
        default=3600, gt=0, description="Longest time that a query in the background may take."
    )
    sql_result_hours: float = Field(default=1, gt=0, description="Hours that results of such queries are kept.")
    sql_result_gigabytes: float = Field(default=1, gt=0, description="Largest result of such a query, as Parquet.")
    trino: str | None = Field(
        default=None, description="Address of a Trino that runs the queries, such as https://trino:8443; else DuckDB."
    )
    trino_user: str = Field(default="admin", description="Trino's administrator: registers tables, acts for others.")
    trino_password: SecretStr | None = Field(default=None, description="The administrator's password, over https.")
    trino_certificates: Path | None = Field(default=None, description="PEM file with the authority of Trino's https.")
    trino_rules: Path | None = Field(
        default=None, description="Rules of Trino's file-based access control, in which organizations are entered."
    )
    upload_gigabytes: float = Field(
        default=4, gt=0, description="Largest upload of a dataset, also after decompression."
    )
    removed_files_hours: float = Field(
        default=24, gt=0, description="Hours between the removal of a dataset's version and that of its files."
    )
    engine: EngineName = Field(
        default=EngineName.AUTO,
        description="What runs executions whose job and pipeline name no engine: `local`, `spark`, or `auto`: without "
        "Spark where that gives the same rows.",
    )
    model_provider: Literal["TOGETHERAI", "OPENAI", "ANTHROPIC"] | None = Field(
        default=None,
        description="Provider of the language model for pipelines and projects that name none; by default the first "
        "that has a credential.",
    )
    model_name: str | None = Field(default=None, description="Name of that model; by default the provider's.")
    model_max_calls: int | None = Field(default=None, ge=1, description="Most calls of that model in an execution.")
    model_max_tokens: int | None = Field(default=None, ge=1, description="Most tokens that it reads and writes.")
    model_max_cost: float | None = Field(default=None, gt=0, description="Most US dollars that it may cost.")
    model_max_calls_per_host: int | None = Field(default=None, ge=1, description="Most calls for pages of one host.")
    model_max_tokens_per_host: int | None = Field(default=None, ge=1, description="Most tokens for pages of one host.")
    model_max_cost_per_host: float | None = Field(default=None, gt=0, description="Most US dollars for one host.")
    model_daily_calls: int | None = Field(
        default=None, ge=0, description="Most calls of language models that an organization may make in a day (UTC)."
    )
    model_daily_tokens: int | None = Field(default=None, ge=0, description="Most tokens that they read and write.")
    model_daily_cost: float | None = Field(default=None, ge=0, description="Most US dollars that they may cost.")
    spark_master: str = Field(default="local[*]", description="Spark master of the drivers.")
    spark_driver_memory: str = Field(default="2g", description="Heap of a driver's JVM.")
    spark_executor_memory: str = Field(
        default="1g", description="Heap of an executor's JVM on a cluster; a local master has no executors."
    )
    spark_max_cores: int | None = Field(
        default=None, ge=1, description="Most cores of a standalone cluster that an execution takes; all when unset."
    )
    spark_event_log: bool = Field(
        default=False, description="Whether Spark's event log of each execution is stored, for a history server."
    )
    spark_history_url: str | None = Field(
        default=None,
        description="Address of a history server of Spark over these logs, which this service reaches.",
    )
    spare_drivers: int | None = Field(
        default=None,
        ge=0,
        le=16,
        description="Drivers with Spark started that wait for executions; 1 with a local master and 8 GiB, else 0.",
    )
    spare_driver_memory: str | None = Field(
        default=None, description="Heap of a spare driver's JVM; that of other drivers when unset."
    )
    spare_libraries: CommaSeparated = Field(
        default=(), description="Java libraries that spare drivers have loaded, such as delta, iceberg."
    )
    spark_drivers: int | None = Field(
        default=None,
        ge=1,
        description="Most drivers with Spark that work at once on this machine; more executions wait. By its cores and "
        "memory when unset.",
    )
    local_drivers: int | None = Field(
        default=None,
        ge=1,
        description="Most executions without Spark that run at once on this machine; more wait. By its cores and "
        "memory when unset.",
    )
    local_driver_gigabytes: float | None = Field(
        default=None, gt=0, description="Most memory of a driver without Spark; half of the machine's when unset."
    )
    stop_seconds: int = Field(
        default=30,
        ge=0,
        description="Seconds that a stop waits for executions; the next start executes those again that still run.",
    )
    dagster_runs: int = Field(
        default=100, ge=1, description="Most executions that have a Dagster run at once; more wait."
    )
    driver_reuse: bool = Field(
        default=True, description="Whether a driver with Spark serves executions of one organization one after another."
    )
    driver_executions: int = Field(default=100, ge=1, description="Executions that such a driver serves at most.")
    driver_idle_minutes: float = Field(default=5, gt=0, description="Time that such a driver waits for the next one.")
    compute: Literal["local", "kubernetes"] = Field(
        default="local", description="Where drivers run: on this machine, or as pods of a cluster (docs/kubernetes.md)."
    )
    kubernetes_namespace: str = Field(default="default", description="Namespace of the drivers' pods.")
    kubernetes_instance: str = Field(
        default="spindle",
        pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$",
        description="Label of this installation's pods; another installation in the namespace needs another one.",
    )
    kubernetes_image: str | None = Field(default=None, description="Image of drivers (deploy/docker/Dockerfile).")
    kubernetes_pull_secrets: CommaSeparated = Field(default=(), description="Secrets to pull that image with.")
    kubernetes_service_account: str = Field(default="default", description="Service account of the drivers' pods.")
    kubernetes_driver_cpu: str = Field(default="500m", description="CPU that a driver's pod requests.")
    kubernetes_driver_memory: str = Field(
        default="3Gi", description="Memory that a driver's pod requests, and its limit."
    )
    kubernetes_executors: int = Field(
        default=2, ge=1, description="Executors of an execution where SPINDLE_SPARK_MASTER is a k8s:// address."
    )
    kubernetes_dynamic_allocation: bool = Field(
        default=False,
        description="Whether these executors come and go with the tasks of an execution, which begins with one.",
    )
    kubernetes_executor_cores: int = Field(default=1, ge=1, description="Tasks that an executor runs at once.")
    kubernetes_executor_cpu: str = Field(default="1", description="CPU that an executor's pod requests.")
    kubernetes_max_driver_cpu: str | None = Field(
        default=None,
        description="Most CPU that a project or a job may choose for drivers; like the next ones, the service's own "
        "value when unset.",
    )
    kubernetes_max_driver_memory: str | None = Field(default=None, description="Most memory of a driver, such as 8Gi.")
    kubernetes_max_executors: int | None = Field(default=None, ge=1, description="Most executors of an execution.")
    kubernetes_max_executor_cpu: str | None = Field(default=None, description="Most CPU of an executor.")
    kubernetes_max_executor_memory: str | None = Field(default=None, description="Largest heap of one, such as 4g.")
    kubernetes_node_choices: KeyValues = Field(
        default=(), description="Labels of nodes that projects and jobs may select: key=value."
    )
    kubernetes_drivers: int = Field(
        default=100, ge=1, description="Most drivers' pods that work at once; more executions wait in turn."
    )
    kubernetes_requests_per_second: float = Field(
        default=50, gt=0, description="Most requests to the API server of all processes of this machine."
    )
    kubernetes_cron_namespaces: CommaSeparated = Field(
        default=(),
        description="Namespaces that cron jobs may be in; they are CronJobs of the cluster then, not the service's.",
    )
    kubernetes_cron_images: CommaSeparated = Field(
        default=(), description="Images that a cron job may name beside that of drivers, which have Spindle in them."
    )
    kubernetes_cron_secrets: CommaSeparated = Field(
        default=(), description="Secrets of those namespaces that cron jobs may send a key of."
    )
    kubernetes_node_selector: KeyValues = Field(default=(), description="Labels of the nodes for drivers: key=value.")
    kubernetes_tolerations: CommaSeparated = Field(
        default=(), description="Taints that drivers tolerate: key, key=value, key:effect or key=value:effect."
    )
    kubernetes_pending_minutes: float = Field(
        default=5, gt=0, description="Time after which a driver that no node has room for is given up."
    )
    spark_sources: str = Field(
        default="", description="Spark data sources that pipelines may use: NAME=JAR,JAR; NAME=JAR (docs/sources)."
    )
    plugin_stages: CommaSeparated | None = Field(
        default=None,
        description="Slugs of the organizations whose uploaded plugins may have stages, actions and methods, the parts "
        "that run in drivers; `*` for all. Unset: where there is only one organization.",
    )
    package_index: SecretStr | None = Field(
        default=None,
        description="Index of the Python packages that pipelines name: its address, or a folder of wheels; the public "
        "index when unset.",
    )
    packages: CommaSeparated | None = Field(
        default=None,
        description="Names of the packages that pipelines may name, `*` for all; others that they require come along. "
        "Unset: all where there is only one organization, else none.",
    )
    cloud_provider: str = Field(default="local", description="Whose machines drivers run on, in the price table.")
    cloud_region: str = Field(default="local", description="Region of that provider.")
    driver_instance_type: str = Field(default="local", description="Instance type that a driver is charged as.")
    executor_instance_type: str = Field(default="local", description="Instance type of executors beside the driver.")
    prices: Path | None = Field(default=None, description="Price table (YAML) in place of the one that is shipped.")
    trainer: str | None = Field(
        default=None,
        description="Command of local trainings, without a shell; {model}, {train}, {validation} and {output} are "
        "filled in (docs/training.md).",
    )
    trainer_models: CommaSeparated = Field(default=(), description="Names that {model} may have.")
    trainer_minutes: float = Field(default=720, gt=0, description="Longest time of a local training.")
    trainer_gigabytes: float = Field(default=8, gt=0, description="Largest memory of a local training.")
    heartbeat_seconds: float = Field(default=10, description="Time between two heartbeats of a driver.")
    lost_after_seconds: float = Field(
        default=60, description="Silence after which an execution whose driver is not found has lost it."
    )
    hung_after_seconds: float = Field(
        default=600, description="Silence after which a driver counts as lost that is there, or is being started."
    )

    @field_validator(
        "fetch_allow_networks",
        "kubernetes_cron_images",
        "kubernetes_cron_namespaces",
        "kubernetes_cron_secrets",
        "kubernetes_pull_secrets",
        "kubernetes_tolerations",
        "local_folders",
        "packages",
        "parameter_environment",
        "plugin_stages",
        "spare_libraries",
        "sql_catalog_aliases",
        "trainer_models",
        mode="before",
    )
    @classmethod
    def _split(cls, value: object) -> object:
        return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value

    @field_validator("kubernetes_node_choices", "kubernetes_node_selector", mode="before")
    @classmethod
    def _split_pairs(cls, value: object, info: ValidationInfo) -> object:
        if not isinstance(value, str):
            return value
        parts = [part.strip().partition("=") for part in value.split(",") if part.strip()]
        if not all(key and sign for key, sign, _ in parts):
            name = f"SPINDLE_{(info.field_name or '').upper()}"
            raise ValueError(f"{name}: its parts are key=value, with commas between them.")
        return tuple((key, text) for key, _, text in parts)

    @field_validator("storage")
    @classmethod
    def _check_storage(cls, value: str | None) -> str | None:
        if value and "://" in value and not STORAGE_ADDRESS.fullmatch(value):
            sentence = f"SPINDLE_STORAGE: '{value[:200]}' is neither s3://bucket/prefix nor a folder."
            raise ValueError(sentence)
        return value or None

    @field_validator("database_url")
    @classmethod
    def _check_database(cls, value: SecretStr | None) -> SecretStr | None:
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

    @field_validator("spark_sources")
    @classmethod
    def _check_sources(cls, value: str) -> str:
        parse_data_sources(value)
        return value

    @field_validator("fetch_allow_networks")
    @classmethod
    def _check_networks(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for text in value:
            try:
                ip_network(text, strict=False)
            except ValueError:
                sentence = f"SPINDLE_FETCH_ALLOW_NETWORKS: '{text}' is not a network such as 10.0.0.0/8 or fd00::/8."
                raise ValueError(sentence) from None
        return value

    @field_validator("trainer")
    @classmethod
    def _check_trainer(cls, value: str | None) -> str | None:
        if value and not all(name in value for name in ("{model}", "{train}", "{output}")):
            raise ValueError("SPINDLE_TRAINER: the command needs {model}, {train} and {output}.")
        try:
            shlex.split(value or "")
        except ValueError as error:
            raise ValueError(f"SPINDLE_TRAINER: the command cannot be split into arguments: {error}.") from None
        return value or None

    @field_validator("spark_history_url", "trino")
    @classmethod
    def _check_address(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is not None and urlsplit(value).scheme not in ("http", "https"):
            name = f"SPINDLE_{(info.field_name or '').upper()}"
            raise ValueError(f"{name}: '{value}' is not an address such as https://trino:8443.")
        return value

    @model_validator(mode="after")
    def _check_compute(self) -> Self:
        if self.compute == "kubernetes":
            if not STORAGE_ADDRESS.fullmatch(self.storage or ""):
                sentence = "SPINDLE_COMPUTE=kubernetes needs SPINDLE_STORAGE=s3://bucket/prefix: pods share no folder."
                raise ValueError(sentence)
            if self.kubernetes_image is None:
                raise ValueError("SPINDLE_COMPUTE=kubernetes needs SPINDLE_KUBERNETES_IMAGE, the image of drivers.")
            if self.public_url is None:
                raise ValueError("SPINDLE_COMPUTE=kubernetes needs SPINDLE_PUBLIC_URL, where pods reach the API.")
        return self

    @property
    def upload_bytes(self) -> int:
        return int(self.upload_gigabytes * 1e9)

    @property
    def api_url(self) -> str:
        """Address of the API's root path as drivers and the command line call it."""
        return (self.public_url or f"http://{self.local_host}:{self.port}").rstrip("/") + self.root_path

    @property
    def local_host(self) -> str:
        """Host at which processes of this machine reach the API."""
        return "127.0.0.1" if self.host in ("0.0.0.0", "::") else self.host  # noqa: S104 - compared, not bound

    @property
    def dagster_url(self) -> str:
        """Address of the Dagster UI for people."""
        return (self.ui_url or f"http://127.0.0.1:{self.ui_port}").rstrip("/")

    @property
    def own_endpoints(self) -> tuple[tuple[str, int], ...]:
        """Hosts and ports that the fetch guard always refuses: the API, the Dagster UI, and what the service uses."""
        endpoints = [(self.host, self.port), ("127.0.0.1", self.ui_port)]
        for server in filter(None, (self.s3_endpoint, self.trino, self.spark_history_url)):
            parts = urlsplit(server)
            endpoints.append((parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)))
        if self.database_url is not None:
            url = make_url(self.database_url.get_secret_value())
            if url.get_backend_name() == "postgresql":
                endpoints.append((url.host or "127.0.0.1", url.port or POSTGRESQL_PORT))
        return tuple(endpoints)

    @property
    def service_url(self) -> str:
        return f"{self.api_url}/{self.service_segment}/api"
