from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path
from zipfile import ZipFile

import pyspark
import pytest

from pipelines.spark.classes import class_path, copy_unsigned, java_option

MAIN = "org.apache.spark.launcher.Main"


@pytest.fixture
def jar(tmp_path: Path) -> Path:
    (found,) = Path(pyspark.__file__).parent.glob("jars/spark-launcher_*.jar")
    return Path(shutil.copy(found, tmp_path / "launcher.jar"))


def java(jar: Path, *options: str) -> bytes:
    """Starts a class of the jar, which wants arguments and fails; what the JVM printed."""
    command = f"{os.environ['JAVA_HOME']}/bin/java" if "JAVA_HOME" in os.environ else "java"
    done = subprocess.run([command, *options, "-cp", jar, MAIN], capture_output=True, check=False)
    assert b"Not enough arguments" in done.stderr
    return done.stdout


def test_without_the_file_a_jvm_is_told_nothing(tmp_path: Path) -> None:
    assert java_option(tmp_path / "classes.jsa") == ""


def test_a_jvm_takes_classes_from_the_file_until_their_jar_changes_and_then_does_without(
    tmp_path: Path, jar: Path
) -> None:
    archive, log = tmp_path / "in a folder" / "classes.jsa", tmp_path / "log"
    archive.parent.mkdir()
    java(jar, f"-XX:ArchiveClassesAtExit={archive}", "-Xlog:cds*=off")
    for source in ("shared objects file (top)", f"file:{jar}"):
        printed = java(jar, *shlex.split(java_option(archive)), f"-Xlog:class+load:file={log}")
        assert f"{MAIN} source: {source}" in log.read_text()
        assert printed == b""
        os.utime(jar, (0, 0))


def test_copies_of_signed_jars_have_their_classes_and_come_before_them_once_they_are_made(tmp_path: Path) -> None:
    assert class_path(tmp_path) == ""
    for jar in Path(pyspark.__file__).parent.glob("jars/janino-*.jar"):
        copy = tmp_path / jar.name
        copy_unsigned(jar, copy)
        assert class_path(tmp_path) == str(copy)
        with ZipFile(jar) as signed, ZipFile(copy) as unsigned:
            kept = unsigned.namelist()
            assert "META-INF/DUMMY.SF" in signed.namelist()
            assert kept == [name for name in signed.namelist() if not name.startswith("META-INF/")]
            assert all(unsigned.read(name) == signed.read(name) for name in kept)
        assert [each.name for each in tmp_path.iterdir()] == [jar.name]


def test_copies_of_another_sparks_jars_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "janino-0.0.1.jar").touch()
    assert class_path(tmp_path) == ""
