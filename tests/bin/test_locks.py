"""The locks: requirements.lock is what users need, requirements-dev.lock has what developers need besides."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Generator
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.service import PATIENCE_SECONDS, wait_until

CLONE = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((CLONE / "pyproject.toml").read_text())
PACKAGES: list[str] = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
# uv of a new clone: its Python only archives classes, as soon as it is allowed to
UV = """\
#!/bin/sh
case $1 in
  venv)
    for folder; do :; done
    mkdir -p "$folder/bin"
    printf '#!/bin/sh\ncase $* in *app_cds) until [ -e "%s/allowed" ]; do sleep 0.1; done; echo >>"%s/archived"; esac' \
      "${0%/*}" "${0%/*}" >"$folder/bin/python"
    cp /bin/true "$folder/bin/spindle"
    chmod +x "$folder/bin/python"
    ;;
  pip) [ "$2" = install ] || for lock; do :; done; echo "${lock##*/}" >>"${0%/*}/locks" ;;
esac
"""


def read_lock(name: str) -> list[Requirement]:
    """Return the requirements of a lock; raise AssertionError for one without a hash."""
    entries = re.findall(
        r"^([a-z0-9].*?)((?: \\\n    --hash=sha256:[0-9a-f]{64})*)$", (CLONE / name).read_text(), re.MULTILINE
    )
    assert [entry for entry, hashes in entries if not hashes] == []
    return [Requirement(entry) for entry, _ in entries]


def list_wanted(group: str) -> Generator[Requirement]:
    """Yield the requirements of a group of dependencies, and of those that it includes."""
    for each in PROJECT["dependency-groups"][group]:
        if isinstance(each, str):
            yield Requirement(each)
        else:
            yield from list_wanted(each["include-group"])


def list_imports(file: Path) -> Generator[str]:
    """Yield the full names of the modules that a file imports, without relative ones."""
    for node in ast.walk(ast.parse(file.read_bytes())):
        match node:
            case ast.Import():
                yield from (each.name for each in node.names)
            case ast.ImportFrom(module=str(name), level=0):
                yield name
            case ast.Call(func=ast.Attribute(attr="import_module"), args=[ast.Constant(value=str(name)), *_]):
                yield name
            case _:
                pass


def test_developers_have_all_that_users_have_in_the_same_versions() -> None:
    users, developers = (set(map(str, read_lock(name))) for name in ("requirements.lock", "requirements-dev.lock"))
    assert users < developers


@pytest.mark.parametrize(("lock", "group"), [("requirements.lock", "build"), ("requirements-dev.lock", "dev")])
def test_a_lock_has_what_the_project_asks_for(lock: str, group: str) -> None:
    locked = read_lock(lock)
    wanted = [*map(Requirement, PROJECT["project"]["dependencies"]), *list_wanted(group)]
    assert len(wanted) > 50
    for each in wanted:
        found = [one for one in locked if canonicalize_name(one.name) == canonicalize_name(each.name)]
        assert found, f"{lock} lacks {each}: bin/lock"
        for one in found:
            (version,) = one.specifier
            assert each.specifier.contains(version.version), f"{lock} has {one}, but {each} is wanted: bin/lock"


def test_users_have_what_the_product_imports() -> None:
    locked = {canonicalize_name(each.name) for each in read_lock("requirements.lock")}
    distributions = packages_distributions()
    ours = {*PACKAGES, *sys.stdlib_module_names, "values"}  # values.py lies beside pipelines/transforms/jail.py
    missing = {
        f"{file.relative_to(CLONE)} imports {name}"
        for package in PACKAGES
        for file in (CLONE / package).rglob("*.py")
        for name in list_imports(file)
        if (top := name.partition(".")[0]) not in ours
        and locked.isdisjoint(map(canonicalize_name, distributions.get(top, [])))
    }
    assert missing == set()


def test_users_get_their_lock_and_developers_keep_theirs(tmp_path: Path) -> None:
    clone, tools = tmp_path / "clone", tmp_path / "tools"
    shutil.copytree(CLONE / "bin", clone / "bin")
    for name in ("requirements.lock", "requirements-dev.lock", "pyproject.toml"):
        shutil.copy(CLONE / name, clone)
    tools.mkdir()
    (tools / "uv").write_text(UV)
    (tools / "uv").chmod(0o755)

    def start(*command: str) -> tuple[list[str], str]:
        """Run a command of the clone; return the locks that it installs, and its messages."""
        (tools / "locks").write_text("")
        environ = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}
        done = subprocess.run(command, cwd=clone, env=environ, capture_output=True, text=True, timeout=60, check=True)
        return (tools / "locks").read_text().split(), done.stderr

    locks, messages = start("bin/spindle")
    assert locks == ["requirements.lock"]
    assert "Preparing Spark's classes in the background" in messages
    assert not (tools / "archived").exists()
    (tools / "allowed").touch()
    stamp = clone / ".venv/.spindle-classes"
    wait_until(lambda: stamp.exists() and str(clone) in stamp.read_text(), PATIENCE_SECONDS)
    assert start("bin/spindle") == ([], "")
    assert start("bin/setup") == ([], "")

    assert start("bin/setup", "--dev")[0] == ["requirements-dev.lock"]
    assert start("bin/spindle") == ([], "")
    with (clone / "pyproject.toml").open("a") as file:
        file.write("# changed")
    assert start("bin/spindle")[0] == ["requirements-dev.lock"]
    assert (tools / "archived").read_text() == "\n", "PySpark has not changed"
