"""Java libraries: fetched once from a Maven repository, checked, and found in Spark's own folder."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from pipelines.spark import jars
from pipelines.spark.jars import Jar, LibrariesMissing, build_conf, require_jars
from pipelines.spark.session import build_conf as build_session_conf

CONTENT = {name: f"content of {name}".encode() for name in ("delta-one-1.0.jar", "delta-two-1.0.jar")}
LISTED = tuple(
    Jar("delta", "org.example", name.rpartition("-")[0], "1.0", sha256(content).hexdigest())
    for name, content in CONTENT.items()
)


class Repository:
    """A Maven repository; `asked` are the paths of the requests."""

    def __init__(self) -> None:
        self.content = dict(CONTENT)
        self.asked: list[str] = []
        self.url = ""


@pytest.fixture
def repository(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Repository]:
    repository = Repository()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            repository.asked.append(self.path)
            content = repository.content.get(self.path.rpartition("/")[2])
            self.send_response(200 if content else 404)
            self.end_headers()
            self.wfile.write(content or b"")

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    repository.url = f"http://127.0.0.1:{server.server_port}/maven/"
    monkeypatch.setattr(jars, "read_list", lambda: LISTED)
    monkeypatch.setenv("SPINDLE_MAVEN", repository.url)
    monkeypatch.setenv("SPINDLE_JARS", str(tmp_path / "jars"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SPARK_HOME", raising=False)
    yield repository
    server.shutdown()
    server.server_close()


def test_jars_are_fetched_once_also_by_several_processes(repository: Repository, tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: require_jars(["delta"]), range(4)))
    assert {tuple(each) for each in results} == {tuple(tmp_path / "jars" / name for name in CONTENT)}
    assert {path.name: path.read_bytes() for path in results[0]} == CONTENT
    assert sorted(repository.asked) == [f"/maven/org/example/{name[:9]}/1.0/{name}" for name in CONTENT]
    conf = build_session_conf("local[1]", libraries=["delta"])
    assert conf["spark.jars"] == ",".join((tmp_path / "jars" / name).as_uri() for name in CONTENT)
    assert conf["spark.sql.extensions"].endswith("DeltaSparkSessionExtension")
    assert len(repository.asked) == 2
    assert {*os.listdir(tmp_path / "jars")} == {".lock", *CONTENT}


def test_a_session_without_libraries_looks_at_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SPINDLE_JARS", str(tmp_path / "jars"))
    assert "spark.jars" not in build_session_conf("local[1]")
    assert not (tmp_path / "jars").exists()


@pytest.mark.parametrize("fault", ["changed", "absent", "unreachable"])
def test_a_library_that_cannot_be_had_says_how_to_get_it(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fault: str
) -> None:
    if fault == "changed":
        repository.content["delta-two-1.0.jar"] = b"something else"
    elif fault == "absent":
        del repository.content["delta-two-1.0.jar"]
    else:
        monkeypatch.setenv("SPINDLE_MAVEN", "http://127.0.0.1:9")
    with pytest.raises(LibrariesMissing, match="SPINDLE_MAVEN") as error:
        build_conf(["delta"])
    assert str(tmp_path / "jars") in str(error.value)
    assert os.listdir(tmp_path / "jars") == [".lock"], "nothing unchecked stays"


def test_the_repository_is_the_mirror_of_mavens_settings(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("SPINDLE_MAVEN")
    (tmp_path / ".m2").mkdir()
    (tmp_path / ".m2" / "settings.xml").write_text(
        '<settings xmlns="http://maven.apache.org/SETTINGS/1.0.0"><mirrors>'
        "<mirror><mirrorOf>other</mirrorOf><url>http://127.0.0.1:9</url></mirror>"
        f"<mirror><mirrorOf>central,other</mirrorOf><url>{repository.url}</url></mirror></mirrors></settings>"
    )
    assert len(require_jars(["delta"])) == 2


def test_jars_in_sparks_own_folder_are_not_fetched(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "spark" / "jars").mkdir(parents=True)
    for name in ("delta-one-1.1.jar", "delta-two-1.0.jar"):
        (tmp_path / "spark" / "jars" / name).touch()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))
    conf = build_conf(["delta"])
    assert "spark.jars" not in conf
    assert "spark.sql.extensions" in conf
    assert repository.asked == []
