from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

from pipelines.spark.classes import java_option


def test_without_the_file_a_jvm_is_told_nothing(tmp_path: Path) -> None:
    assert java_option(tmp_path / "classes.jsa") == ""


def test_a_jvm_says_nothing_of_a_file_that_was_made_with_another(tmp_path: Path) -> None:
    archive = tmp_path / "of a folder with spaces.jsa"
    archive.write_bytes(os.urandom(4096))
    java = f"{os.environ['JAVA_HOME']}/bin/java" if "JAVA_HOME" in os.environ else "java"
    done = subprocess.run([java, *shlex.split(java_option(archive)), "-version"], capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (0, b"")
    assert b"warning" not in done.stderr
