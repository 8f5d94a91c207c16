"""Wheels of plugins, built in memory: whole ones, and damaged ones."""

from __future__ import annotations

import base64
import hashlib
import io
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Mapping
from pathlib import Path

CLONE = Path(__file__).parents[2]

STAGE = '''
from spindle import Columns, Plugin, RowStage, register_row_transform, register_stage

plugin = Plugin(description="Tags of pages.")


@register_stage("acmeTag")
class Tag(RowStage):
    """Add a tag."""

    positional = ("tag",)
    tag: str = "new"

    def infer_columns(self, before: Columns) -> Columns:
        return before.with_columns((("tag", "string"),))
'''
TRANSFORM = '''
from spindle import Plugin, register_row_transform

plugin = Plugin(description="Loud titles.")


@register_row_transform
def acme_shout(row: dict) -> {"title": str}:
    """Write the title in capitals."""
    return {"title": row["title"].upper()}
'''


def build_wheel(
    name: str,
    code: str,
    *,
    metadata: str = "",
    group: str = "spindle.plugins",
    module: str = "acme_module",
    files: Mapping[str, bytes] | None = None,
    record: Mapping[str, str] | None = None,
) -> bytes:
    """Return a wheel with one module and further files; `record` replaces checksums."""
    info = f"{name.replace('-', '_')}-1.0.dist-info"
    content = {
        f"{module}.py": code.encode(),
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{metadata}".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[{group}]\n{name} = {module}:plugin\n".encode(),
        **(files or {}),
    }
    lines = [f"{path},{(record or {}).get(path) or _encode(text)},{len(text)}\n" for path, text in content.items()]
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, text in content.items():
            archive.writestr(zipfile.ZipInfo(path), text, zipfile.ZIP_DEFLATED)
        archive.writestr(zipfile.ZipInfo(f"{info}/RECORD"), "".join(lines) + f"{info}/RECORD,,\n")
    return buffer.getvalue()


def write_library(folder: Path, name: str, code: str, *, requires: str = "") -> str:
    """Write a wheel of a library, version 1.0, whose module has its name; return the package as a pipeline names it."""
    folder.mkdir(parents=True, exist_ok=True)
    metadata = f"Requires-Dist: {requires}\n" if requires else ""
    wheel = build_wheel(name, code, metadata=metadata, group="none", module=name)
    (folder / f"{name}-1.0-py3-none-any.whl").write_bytes(wheel)
    return f"{name}==1.0"


def build_engine(folder: Path, version: str, changes: Mapping[str, tuple[str, str]]) -> Path:
    """Build a wheel of Spindle itself, of another version, in whose files texts are replaced by others."""
    source = folder / "source"
    source.mkdir()
    settings = (CLONE / "pyproject.toml").read_text()
    packages = tomllib.loads(settings)["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    for name in packages:
        shutil.copytree(CLONE / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(CLONE / name, source)
    own = tomllib.loads(settings)["project"]["version"]
    changed = {"pyproject.toml": (f'version = "{own}"', f'version = "{version}"'), **changes}
    for name, (old, new) in changed.items():
        text = (source / name).read_text()
        assert old in text
        (source / name).write_text(text.replace(old, new))
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=source, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def wrap(files: Mapping[str, bytes]) -> bytes:
    """Return a zip with these files."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return buffer.getvalue()


def _encode(text: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(text).digest()).rstrip(b"=").decode()
