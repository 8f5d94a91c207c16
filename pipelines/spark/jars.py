"""Java libraries for formats and storages that Spark lacks: delta, iceberg, avro, s3, postgresql and mysql.

They are in Spark's own folder of jars, as in an image that was built with them, or in a cache folder, into which they
are fetched on first need: from the Maven repository of SPINDLE_MAVEN, from the mirror in ~/.m2/settings.xml, or with
the Ivy inside PySpark from its own repository. `jars.txt` has their versions and checksums.

Every driver loads this module: it imports no Spark, and clients only where it fetches.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from hashlib import file_digest
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING
from xml.sax.saxutils import quoteattr

from pipelines.errors import RunError, summarize_error

if TYPE_CHECKING:
    from httpx import Client

_LIST = Path(__file__).with_name("jars.txt")
_FETCH_SECONDS = 600
_REQUEST_SECONDS = 60
_DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # the defaults are for tables with millions of files
    "spark.databricks.delta.snapshotPartitions": "2",
    # the versions of a dataset stay readable; its owner shortens the history with VACUUM
    "spark.databricks.delta.properties.defaults.logRetentionDuration": "interval 36500 days",
}
_ICEBERG = {"spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"}
_SETTINGS: Mapping[str, Mapping[str, str]] = {"delta": _DELTA, "iceberg": _ICEBERG}


class LibrariesMissing(RunError):
    """Java libraries are neither on this machine nor can they be fetched."""


@dataclass(frozen=True, slots=True)
class Jar:
    """One jar of the list; `library` needs it."""

    library: str
    group: str
    artifact: str
    version: str
    digest: str

    @property
    def name(self) -> str:
        return f"{self.artifact}-{self.version}.jar"

    @property
    def path(self) -> str:
        """Its path in a Maven repository."""
        return f"{self.group.replace('.', '/')}/{self.artifact}/{self.version}/{self.name}"


@cache
def read_list() -> tuple[Jar, ...]:
    """Return all jars that Spindle knows."""
    lines = (line.split() for line in _LIST.read_text().splitlines() if not line.startswith("#"))
    parts = ((library, coordinates.split(":"), digest) for library, coordinates, digest in lines)
    return tuple(
        Jar(library, group, artifact, version, digest) for library, (group, artifact, version), digest in parts
    )


def list_libraries() -> frozenset[str]:
    """Return the names of all libraries."""
    return frozenset(jar.library for jar in read_list())


def get_cache_folder() -> Path:
    """Return the folder that jars are kept in: SPINDLE_JARS, or one in the user's cache."""
    if folder := os.environ.get("SPINDLE_JARS"):
        return Path(folder).absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "spindle" / "jars"


def build_conf(libraries: Iterable[str]) -> dict[str, str]:
    """Return the settings of a Spark session with these libraries; fetch their jars when they are missing.

    Raises LibrariesMissing. Without libraries there are no settings, and nothing is looked at.
    """
    wanted = sorted(set(libraries))
    if not wanted:
        return {}
    conf: dict[str, str] = {}
    for key, value in (each for name in wanted for each in _SETTINGS.get(name, {}).items()):
        conf[key] = f"{conf[key]},{value}" if key in conf else value
    jars = require_jars(wanted)
    return {**conf, "spark.jars": ",".join(path.as_uri() for path in jars)} if jars else conf


def require_jars(libraries: Iterable[str]) -> Sequence[Path]:
    """Return the jars of these libraries, except those in Spark's own folder; fetch missing ones.

    Raises LibrariesMissing with a sentence that says how to get them.
    """
    wanted = frozenset(libraries)
    jars = [jar for jar in read_list() if jar.library in wanted and not _is_in_spark(jar.artifact)]
    folder = get_cache_folder()
    if any(not (folder / jar.name).exists() for jar in jars):
        _fetch_missing(jars, folder)
    return [folder / jar.name for jar in jars]


def has_jars(library: str) -> bool:
    """Return whether this machine has the jars of a library, in the cache folder or in Spark's; fetch none."""
    folder = get_cache_folder()
    jars = (jar for jar in read_list() if jar.library == library)
    return all(_is_in_spark(jar.artifact) or (folder / jar.name).exists() for jar in jars)


def _is_in_spark(artifact: str) -> bool:
    """Return whether Spark's own folder has the artifact, in any version."""
    return any(True for folder in list_spark_folders() for _ in folder.glob(f"{artifact}-[0-9]*.jar"))


def list_spark_folders() -> Sequence[Path]:
    """Return the folders with the jars of Spark itself."""
    home = os.environ.get("SPARK_HOME")
    if home:
        return [Path(home) / "jars"]
    spec = find_spec("pyspark")
    return [Path(place) / "jars" for place in (spec.submodule_search_locations or ())] if spec else []


def _fetch_missing(jars: Sequence[Jar], folder: Path) -> None:
    """Fetch the missing jars, check them against the list, and move them into the folder one by one."""
    with _explain_failure(sorted({jar.library for jar in jars}), folder), _lock(folder):
        missing = [jar for jar in jars if not (folder / jar.name).exists()]
        with _make_scratch(folder) as scratch:
            fetched = _fetch(missing, scratch) if missing else {}
            for jar, path in fetched.items():
                with path.open("rb") as file:
                    found = file_digest(file, "sha256").hexdigest()
                if found != jar.digest:
                    raise ValueError(f"the checksum of {jar.name} is {found} instead of {jar.digest}")
            for jar, path in fetched.items():
                path.chmod(0o444)
                path.rename(folder / jar.name)


@contextmanager
def _explain_failure(libraries: Sequence[str], folder: Path) -> Generator[None]:
    """Convert errors of a fetch to LibrariesMissing, which says how to get the libraries."""
    import httpx

    try:
        yield
    except (OSError, httpx.HTTPError, httpx.InvalidURL, subprocess.SubprocessError, ValueError) as error:
        raise LibrariesMissing(
            f"the Java libraries for {', '.join(libraries)} could not be fetched ({summarize_error(error)}): "
            "connect this machine to a Maven repository, named by SPINDLE_MAVEN or as a mirror in ~/.m2/settings.xml, "
            f"or run 'spindle jars {' '.join(libraries)}' on a machine that has one and copy its folder to {folder}"
        ) from error


@contextmanager
def _make_scratch(folder: Path) -> Generator[Path]:
    with TemporaryDirectory(dir=folder, prefix=".fetch-", ignore_cleanup_errors=True) as scratch:
        yield Path(scratch)


@contextmanager
def _lock(folder: Path) -> Generator[None]:
    """Let one process at a time fetch into the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fetch(jars: Sequence[Jar], scratch: Path) -> dict[Jar, Path]:
    """Fetch jars to a folder and return their paths there."""
    repository = _find_repository()
    if repository is None:
        return _fetch_with_ivy(jars, scratch)
    import httpx

    with httpx.Client(timeout=_REQUEST_SECONDS, follow_redirects=True) as client:
        return {jar: _download(client, f"{repository}/{jar.path}", scratch / jar.name) for jar in jars}


def _find_repository() -> str | None:
    """Return the address of the Maven repository to use instead of Ivy's own."""
    found = os.environ.get("SPINDLE_MAVEN") or _find_mirror(Path.home() / ".m2" / "settings.xml")
    return found.rstrip("/") if found else None


def _download(client: Client, url: str, path: Path) -> Path:
    with client.stream("GET", url) as answer, path.open("wb") as file:
        if not answer.is_success:
            raise ValueError(f"the Maven repository answers {answer.status_code} for {path.name}")
        for chunk in answer.iter_bytes():
            file.write(chunk)
    return path


def _fetch_with_ivy(jars: Sequence[Jar], scratch: Path) -> dict[Jar, Path]:
    """Fetch jars from Ivy's default repository."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(f"{home}/bin/java" if home else "java")
    ivy = next((path for folder in list_spark_folders() for path in folder.glob("ivy-*.jar")), None)
    if java is None or ivy is None:
        raise ValueError("there is no Java" if java is None else "Spark has no Ivy")
    wanted = "".join(
        f"<dependency org={quoteattr(jar.group)} name={quoteattr(jar.artifact)} rev={quoteattr(jar.version)} "
        'transitive="false" conf="*->default"/>'
        for jar in jars
    )
    module = scratch / "ivy.xml"
    module.write_text(
        '<ivy-module version="2.0"><info organisation="spindle" module="jars"/><dependencies>'
        f"{wanted}</dependencies></ivy-module>"
    )
    command = [java, "-jar", str(ivy), "-cache", str(scratch / "cache"), "-ivy", str(module)]
    done = subprocess.run(
        [*command, "-retrieve", str(scratch / "[artifact]-[revision].[ext]"), "-types", "jar", "bundle"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_FETCH_SECONDS,
        check=False,
    )
    found = {jar: scratch / jar.name for jar in jars}
    if absent := [path.name for path in found.values() if not path.exists()]:
        raise ValueError(f"Ivy did not find {absent[0]}; {_find_reason(done.stdout)}")
    return found


def _find_reason(output: str) -> str:
    """Return the line of Ivy's output that most likely says why it failed."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    telling = [line for line in lines if "exception" in line.lower() or "error" in line.lower()]
    return (telling or lines or ["it wrote nothing"])[0][:200]


def _find_mirror(settings: Path) -> str | None:
    """Return the address of the mirror of all repositories, or of Maven's own, that Maven's settings name."""
    from lxml import etree  # pyright: ignore[reportAttributeAccessIssue]  (it is compiled)

    parser = etree.XMLParser(resolve_entities=False, no_network=True, recover=True)
    with suppress(OSError, etree.XMLSyntaxError):
        for mirror in etree.parse(settings, parser).iterfind(".//{*}mirror"):
            kinds = (mirror.findtext("{*}mirrorOf") or "").replace(" ", "").split(",")
            url = (mirror.findtext("{*}url") or "").strip()
            if url.startswith("http") and not {"*", "central", "external:*"}.isdisjoint(kinds):
                return url
    return None
