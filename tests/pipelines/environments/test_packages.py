"""Packages of row functions: exact versions, their lock, and their use in the sandbox of both runners."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipelines.contract.context import RunContext
from pipelines.environments.packages import PackageRefused, is_allowed, lock_packages, validate_package
from pipelines.environments.uv import IndexUnavailable, PackageIndex
from pipelines.errors import ArgumentError, PipelineError
from pipelines.pipeline import Pipeline
from pipelines.transforms.transform import Transforms
from tests.support.wheels import write_library

ADDING = """
import adder
def add(row) -> {"sum": int}:
    return {"sum": adder.add(int(row["a"]))}
"""


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels as the index: a library that needs another one, and one that is no wheel."""
    folder = tmp_path / "wheels"
    write_library(folder, "counted", "ONE = 1\n")
    write_library(folder, "adder", "from counted import ONE\ndef add(n): return n + ONE\n", requires="counted>=1")
    write_library(folder, "stuck", "", requires="counted>=2")
    (folder / "source-1.0.tar.gz").write_bytes(b"")
    monkeypatch.setenv("SPINDLE_PACKAGE_INDEX", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return folder


def make_pipeline(folder: Path, packages: str = "[Adder==1.0]") -> Pipeline:
    (folder / "rows.csv").write_text("a\n1\n41\n")
    return Pipeline.from_yaml(
        f"pipeline:\n  - {{stage: load_csv, args: ['{folder}/rows.csv']}}\n"
        f"  - {{stage: 'python_row_transform:add'}}\nspindle:\n  packages: {packages}\n"
    )


@pytest.mark.parametrize(
    "text",
    ["rapidfuzz", "rapidfuzz>=3", "rapidfuzz==3.*", "rapidfuzz @ file:///x", "x==${V}", "-r==1", "x[y]==1", "x==1 ; y"],
)
def test_a_package_has_one_exact_version(text: str) -> None:
    with pytest.raises(ArgumentError) as error:
        validate_package(text)
    assert error.value.code == "inexact-package"


def test_names_are_normalized_and_the_operators_list_is_of_names() -> None:
    assert validate_package(" Rapid_Fuzz == 3.14.1 ") == "rapid-fuzz==3.14.1"
    assert is_allowed("rapid-fuzz==3.14.1", ["Rapid.Fuzz"])
    assert is_allowed("x==1", ["*"])
    assert not is_allowed("x==1", ["y"])


@pytest.mark.parametrize(
    ("packages", "line", "code"),
    [
        ("[adder]", 5, "inexact-package"),
        ("[adder==1.0, Adder==1]", 5, "inexact-package"),
        ("\n  - adder==1.0\n  - missing==1.0", 7, "unknown-package"),
        ("\n  - adder==2.0", 6, "unknown-package"),
        ("\n  - adder==1.0\n  - source==1.0", 7, "no-wheel"),
        ("[stuck==1.0]", 5, "package-conflict"),
    ],
)
def test_a_package_that_cannot_be_had_is_an_error_with_its_line(
    wheels: Path, tmp_path: Path, packages: str, line: int, code: str
) -> None:
    with pytest.raises(PipelineError) as error:
        make_pipeline(tmp_path, packages).add_packages(Transforms())
    assert [(each.line, each.code) for each in error.value.problems] == [(line, code)]


def test_an_index_out_of_reach_is_no_fault_of_the_packages(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://user:canary@127.0.0.1:{free.getsockname()[1]}/simple"
    for index in (address, str(tmp_path / "missing")):
        with pytest.raises(IndexUnavailable) as error:
            lock_packages(["adder==1.0"], PackageIndex(index, tmp_path / "uv"))
        assert "canary" not in str(error.value)


def test_a_silent_index_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipelines.environments.packages.LOCK_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        index = PackageIndex(f"http://127.0.0.1:{silent.getsockname()[1]}/simple", tmp_path / "uv")
        with pytest.raises(IndexUnavailable, match=r"did not answer within 0\.5 s"):
            lock_packages(["adder==1.0"], index)


def test_the_lock_has_what_packages_require_with_checksums(wheels: Path, tmp_path: Path) -> None:
    lock = lock_packages(["adder==1.0"], PackageIndex(str(wheels), tmp_path / "uv"))
    assert lock.startswith("# CPython ")
    assert [line.split()[0] for line in lock.splitlines() if "==" in line] == ["#", "adder==1.0", "counted==1.0"]
    assert lock.count("--hash=sha256:") == 2
    with pytest.raises(PackageRefused):
        lock_packages(["stuck==1.0"], PackageIndex(str(wheels), tmp_path / "uv"))


def test_a_function_imports_its_packages_in_the_sandbox_alone(wheels: Path, tmp_path: Path) -> None:
    transforms = make_pipeline(tmp_path).add_packages(Transforms({"add": ADDING}))
    run = transforms.find("add").make_runner({})
    assert [*run([{"a": 1}, {"a": 41}])] == [{"sum": 2}, {"sum": 42}]
    assert "adder" not in sys.modules
    for wheel in wheels.iterdir():  # what is locked and installed needs no index
        wheel.unlink()
    assert make_pipeline(tmp_path).add_packages(Transforms()).packages == transforms.packages


@pytest.mark.long
def test_packages_work_on_spark(wheels: Path, tmp_path: Path, spark: SparkSession) -> None:
    rows = make_pipeline(tmp_path).run(spark, context=RunContext(), transforms={"add": ADDING})
    assert sorted(row["sum"] for row in rows.collect()) == [2, 42]
