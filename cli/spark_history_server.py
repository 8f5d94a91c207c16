"""`spindle history`: a history server of Spark over the event logs in the storage."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import NoReturn
from urllib.parse import urlsplit

from core.errors import Unavailable
from core.infra.settings import Settings
from core.infra.storage import open_storage
from core.infra.storage.protocol import Storage, event_logs_key
from pipelines.filesystem import S3Access
from pipelines.java import find_missing_java
from pipelines.spark.jars import LibrariesMissing, require_jars
from pipelines.spark.session import BUCKET_SETTINGS, LOGGING

_CLASS = "org.apache.spark.deploy.history.HistoryServer"
_KEYS_OF_ENVIRONMENT = "software.amazon.awssdk.auth.credentials.EnvironmentVariableCredentialsProvider"
_HEAP = "1g"
_MARK = ".folder"  # the server does not start without the folder, and does not read such files
_PAGES = 20  # applications whose pages are in memory


def serve_spark_history(data: Path, host: str, port: int) -> NoReturn:
    """Replace this process by a history server; print a sentence where it cannot start."""
    if missing := find_missing_java():
        sys.exit(f"{missing[0].upper()}{missing[1:]}")
    try:
        storage = open_storage(Settings(data=data.resolve()).storage)
        storage.check()
        storage.put(f"{event_logs_key()}/{_MARK}", BytesIO())
        access = storage.export_access()
        jars = require_jars(["s3"] if access else [])
    except (Unavailable, LibrariesMissing) as error:
        sys.exit(str(error))
    options = {**_build_options(storage, access), "spark.history.ui.port": str(port)}
    environment = {
        **os.environ,
        "SPARK_LOCAL_IP": host,
        "SPARK_DAEMON_MEMORY": _HEAP,
        "SPARK_DAEMON_CLASSPATH": os.pathsep.join(map(str, jars)),
        "SPARK_HISTORY_OPTS": " ".join(f'"-D{name}={value}"' for name, value in options.items()),
        **(_list_keys(access) if access else {}),
    }
    program = _find_spark() / "bin/spark-class"
    print(f"Spark's history server: http://{host}:{port}", flush=True)
    os.execve(program, [str(program), _CLASS], environment)  # noqa: S606 - a program of PySpark, without arguments


def _build_options(storage: Storage, access: S3Access | None) -> Mapping[str, str]:
    """Return the server's settings, without secrets: they are arguments of its process."""
    address = storage.url_for(event_logs_key(), "spark")
    options = {
        "log4j2.configurationFile": LOGGING.as_uri(),
        "spark.history.retainedApplications": str(_PAGES),
        "spark.history.fs.logDirectory": address,
        # a request during the first scan would leave an entry without a log: ours are single files
        "spark.history.fs.eventLog.rolling.onDemandLoadEnabled": "false",
    }
    if access is None:
        return options
    bucket = {
        **BUCKET_SETTINGS,
        "fs.s3a.aws.credentials.provider": _KEYS_OF_ENVIRONMENT,
        "fs.s3a.endpoint.region": access.region,
        "fs.s3a.path.style.access": str(access.path_style).lower(),
    }
    if access.endpoint:
        bucket["fs.s3a.endpoint"] = access.endpoint
        bucket["fs.s3a.connection.ssl.enabled"] = str(urlsplit(access.endpoint).scheme == "https").lower()
    return options | {f"spark.hadoop.{name}": value for name, value in bucket.items() if value}


def _list_keys(access: S3Access) -> Mapping[str, str]:
    """Return the variables from which the server reads the keys of the bucket."""
    keys = {"AWS_ACCESS_KEY_ID": access.access_key_id, "AWS_SECRET_ACCESS_KEY": access.secret_access_key}
    return keys | ({"AWS_SESSION_TOKEN": access.session_token} if access.session_token else {})


def _find_spark() -> Path:
    spark = find_spec("pyspark")
    if spark is None or spark.origin is None:
        sys.exit("PySpark is not installed.")
    return Path(spark.origin).parent
