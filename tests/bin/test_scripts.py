"""The commands of bin/: what they print, choose and return."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

CLONE = Path(__file__).parents[2]


def run(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, **environment}
    return subprocess.run(command, cwd=CLONE, env=environ, capture_output=True, text=True, timeout=240, check=False)


def jdk(folder: Path, version: str) -> Path:
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "java").write_text("#!/bin/sh\n")
    (folder / "bin" / "java").chmod(0o755)
    (folder / "release").write_text(f'JAVA_VERSION="{version}"\n')
    return folder


@pytest.fixture(scope="module", autouse=True)
def set_up_clone() -> None:
    assert run("bin/setup", "--yes", "--dev").returncode == 0


def test_set_up_again_is_silent_and_installs_nothing() -> None:
    stamp = CLONE / ".venv/.spindle-stamp"
    before = stamp.stat().st_mtime_ns
    done = run("bin/setup")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert stamp.stat().st_mtime_ns == before


@pytest.mark.parametrize(
    ("version", "taken"), [("17.0.15", True), ("21.0.4", True), ("25", False), ("1.8.0_412", False)]
)
def test_only_a_java_that_pyspark_runs_on_is_taken(tmp_path: Path, version: str, taken: bool) -> None:
    home = jdk(tmp_path / "jdk", version)
    done = run("bash", "-c", '. bin/setup && echo "$JAVA_HOME"', JAVA_HOME=str(home))
    assert done.returncode == 0
    assert (done.stdout.strip() == str(home)) is taken


def test_set_up_does_not_change_the_working_folder(tmp_path: Path) -> None:
    pipeline = tmp_path / "bad.yaml"
    pipeline.write_text("pipeline: [\n")
    done = subprocess.run([CLONE / "bin/spindle", "check", "bad.yaml"], cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 1


def test_help_names_every_command() -> None:
    done = run("bin/spindle", "--help")
    assert done.returncode == 0
    for command in ("up", "run", "check", "openapi", "apply", "execute"):
        assert f" {command} " in done.stdout


@pytest.mark.parametrize("script", ["bin/demo", "bin/test"])
def test_scripts_explain_themselves(script: str) -> None:
    done = run(script, "--help")
    assert done.returncode == 0
    assert f"{script} [--" in done.stdout


def test_a_file_that_is_not_there_is_a_usage_error() -> None:
    done = run("bin/spindle", "run", "nowhere.yaml")
    assert done.returncode == 2
    assert "nowhere.yaml" in done.stderr


@pytest.mark.long
def test_arguments_of_bin_test_are_passed_to_pytest() -> None:
    arguments = ("tests/bin/test_shop.py", "--collect-only", "-q", "-p", "no:cacheprovider")
    done = run("bin/test", *arguments, PYTEST_ADDOPTS="")
    assert done.returncode == 0
    assert "test_shop.py::" in done.stdout


def test_the_environment_of_another_clone_is_not_taken_over(tmp_path: Path) -> None:
    clone, environment = tmp_path / "clone", tmp_path / "environment"
    shutil.copytree(CLONE / "bin", clone / "bin")
    shutil.copy(CLONE / "requirements.lock", clone)
    environment.mkdir()
    (environment / ".spindle-stamp").write_text("1 2\n/another/clone\nrequirements.lock\n")
    (clone / ".venv").symlink_to(environment)
    for path, status in (("", 1), (str(clone), 0)):
        environ = {**os.environ, "PYTHONPATH": path}
        done = subprocess.run([clone / "bin/setup"], env=environ, capture_output=True, text=True, check=False)
        assert done.returncode == status
        assert ("the environment of /another/clone" in done.stderr) is (status == 1)
    assert [each.name for each in environment.iterdir()] == [".spindle-stamp"]


@pytest.mark.skipif(os.getuid() != 0, reason="needs a second user")
def test_another_user_of_a_clone_is_told_who_can_set_it_up(tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    shutil.copytree(CLONE / "bin", clone / "bin")
    shutil.copy(CLONE / "requirements.lock", clone)
    (clone / ".venv").mkdir()
    for folder in (tmp_path, *tmp_path.parents[:-2]):
        folder.chmod(folder.stat().st_mode | 0o055)
    refused = subprocess.run(
        [clone / "bin/setup"], cwd=clone, user=65534, group=65534, capture_output=True, text=True, check=False
    )
    assert refused.returncode == 1
    assert f"Ask root to run {clone}/bin/setup" in refused.stderr
    assert len(refused.stderr.splitlines()) == 1
    assert list((clone / ".venv").iterdir()) == []
