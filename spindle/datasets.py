"""Rows of datasets in scripts and notebooks, over REST with an API key."""

from __future__ import annotations

import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import httpx
    import pyarrow

DEFAULT_PATH = "/api/svc/api"
DEFAULT_SCHEMA = "default"
TIMEOUT_SECONDS = 60
BUSY = (429, 503)
PATIENCE_SECONDS = 120
FIRST_DELAY_SECONDS, LAST_DELAY_SECONDS = 0.05, 2.0
UNAUTHORIZED, FORBIDDEN, NOT_FOUND = 401, 403, 404


class DatasetError(Exception):
    """Why a dataset cannot be read, as a sentence; it never contains a key."""


def read(
    name: str | None = None,
    *,
    version: int | str | None = None,
    sql: str | None = None,
    url: str | None = None,
    key: str | None = None,
) -> pyarrow.Table:
    """Return the rows of the dataset `project.job`, or of another table that SQL can name, as an Arrow table.

    `version` is the number or id of an earlier version. With `sql` in place of a name, the rows of a query, which may
    take an hour. Without `url` and `key`, SPINDLE_URL and SPINDLE_KEY are used; without these, the instance that runs
    on the data folder SPINDLE_DATA. Raises DatasetError.
    """
    from pyarrow import parquet

    if (name is None) is (sql is None) or (sql is not None and version is not None):
        raise DatasetError("Give the name of a dataset, or sql without a version.")
    with TemporaryDirectory(prefix="spindle-", ignore_cleanup_errors=True) as folder:
        path = Path(folder) / "rows"
        if name is not None:
            download(name, path, version=version, url=url, key=key)
        else:
            with _connect(url, key) as service:
                service.query(sql or "", path)
        return parquet.ParquetFile(path).read()


def download(
    name: str, path: Path | str, *, version: int | str | None = None, url: str | None = None, key: str | None = None
) -> Path:
    """Store the rows as a Parquet file, in place of an earlier file at `path`, and return its path.

    The rows are never all in memory. The other arguments are those of `read`.
    """
    target = Path(path)
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    with _connect(url, key) as service:
        dataset = service.find_dataset(name)
        try:
            service.store(dataset, version, part)
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
    return target


@contextmanager
def _connect(url: str | None, key: str | None) -> Generator[_Service]:
    import httpx  # here, because `import spindle` should be quick

    base_url, key = _find_address(url, key)
    try:
        with httpx.Client(base_url=base_url, headers={"X-API-Key": key}, timeout=TIMEOUT_SECONDS) as http:
            yield _Service(http)
    except (httpx.InvalidURL, httpx.UnsupportedProtocol, UnicodeEncodeError):
        raise DatasetError(f"{base_url} is not an address of http or https, or the key is not one.") from None
    except httpx.TransportError as error:
        raise DatasetError(f"Spindle at {base_url} did not answer, or ended its answer too early ({error}).") from None


def _find_address(url: str | None, key: str | None) -> tuple[str, str]:
    """Return address and key. Only the instance of the data folder gets its key."""
    data = Path(os.environ.get("SPINDLE_DATA", ".spindle"))
    url, key = url or os.environ.get("SPINDLE_URL"), key or os.environ.get("SPINDLE_KEY")
    if url is None:
        url = _read_file(data / "address")
        key = key or _read_file(data / "admin-key")
    if url is None:
        raise DatasetError(f"No Spindle runs on the data folder {data}. Give its address as url or SPINDLE_URL.")
    if key is None:
        raise DatasetError(f"There is no API key for {url}. Give one as key or SPINDLE_KEY.")
    is_bare = urlsplit(url).path in ("", "/")
    return url.rstrip("/") + (DEFAULT_PATH if is_bare else ""), key.strip()


def _read_file(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:
        return None


@dataclass(frozen=True, slots=True)
class _Service:
    """The operations that reading needs."""

    http: httpx.Client

    def find_dataset(self, name: str) -> str:
        """Return the id of the dataset that SQL calls `name`: table, schema.table or catalog.schema.table."""
        *schemas, table = (part.strip('"').lower() for part in name.split("."))
        schema = schemas[-1] if schemas else DEFAULT_SCHEMA
        tables: list[dict[str, Any]] = []
        with self._get("/datasets/query/tables", schema=schema) as answer:
            if answer.status_code != NOT_FOUND:
                tables = self._check(answer).json()
        for each in tables:
            if each["name"] == table:
                return each["datasetId"]
        names = ", ".join(sorted(f"{each['schema']}.{each['name']}" for each in tables)) or "none"
        raise DatasetError(f"There is no dataset {schema}.{table} with rows. Those of {schema}: {names}.")

    def store(self, dataset_id: str, version: int | str | None, path: Path) -> None:
        """Write the rows of a version to a Parquet file."""
        params = {"format": "parquet", **({} if version is None else {"version": str(version)})}
        with self._get(f"/datasets/{dataset_id}/download", **params) as answer:
            self._check(answer)
            with path.open("wb") as file:
                for chunk in answer.iter_bytes():
                    file.write(chunk)

    def query(self, sql: str, path: Path) -> None:
        """Run a query in the background and write its rows to a Parquet file."""
        answer = self._check(self.http.post("/datasets/query", params={"async": "true"}, json={"sql": sql})).json()
        address, delay = f"/datasets/queries/{answer['queryId']}", FIRST_DELAY_SECONDS
        while answer["status"] in ("PENDING", "RUNNING"):
            time.sleep(delay)
            delay = min(2 * delay, LAST_DELAY_SECONDS)
            with self._get(address) as found:
                answer = self._check(found).json()
        if answer["status"] != "COMPLETED":
            raise DatasetError(answer["error"])
        with self._get(f"{address}/results", format="parquet") as rows:
            self._check(rows)
            with path.open("wb") as file:
                for chunk in rows.iter_bytes():
                    file.write(chunk)
        self.http.delete(address)

    @contextmanager
    def _get(self, path: str, **params: str) -> Generator[httpx.Response]:
        """Send a request, also several times while the service is busy."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            with self.http.stream("GET", path, params=params) as answer:
                delay = answer.headers.get("Retry-After", "")
                if answer.status_code not in BUSY or not delay.isdecimal() or time.monotonic() > deadline:
                    yield answer
                    return
            time.sleep(min(int(delay), PATIENCE_SECONDS))

    def _check(self, answer: httpx.Response) -> httpx.Response:
        """Return the answer, read unless it is a file; raise DatasetError for a refusal."""
        if answer.is_success:
            if answer.headers.get("Content-Type", "").startswith("application/json"):
                answer.read()
            return answer
        answer.read()
        try:
            sentence = str(answer.json()["error"])
        except (ValueError, LookupError, TypeError):
            sentence = f"{answer.request.url.copy_with(query=None)} does not answer like Spindle"
        if answer.status_code in (UNAUTHORIZED, FORBIDDEN):
            sentence += " Give another key as key or SPINDLE_KEY; it needs the scope datasets:read."
        raise DatasetError(f"{sentence} (status {answer.status_code})")
