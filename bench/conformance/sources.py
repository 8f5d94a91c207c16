"""Sources of published test suites, from package registries, in `.bench/conformance`: never part of the repository."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from bench.contenders import install_contender
from bench.service import SCRATCH

FOLDER = SCRATCH / "conformance"
_PEERS = (
    "scrapy==2.19.0",
    "html5lib==1.1",
    "feedparser==6.0.14",
    "price-parser==0.5.1",
    "protego==0.7.0",
    "gpyrobotstxt==1.0.0",
    "jsonpath-ng==1.8.0",
    "python-jsonpath==2.2.2",
    "cachecontrol==0.14.4",
    "pytest==9.1.1",
)
_BUILDERS = ("setuptools<80", "wheel", "hatchling", "hatch-vcs")  # html5lib's setup.py needs pkg_resources


def install_peers() -> Path:
    """Return the Python of an environment with all peers."""
    return install_contender("conformance-peers", *_PEERS)


def get_python_source(name: str, version: str) -> Path:
    """Return the folder of a Python package's source, with its tests."""
    folder = FOLDER / f"{name}-{version}"
    if not folder.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        python = install_contender("conformance-sources", "pip", *_BUILDERS)
        options = ["--quiet", "--no-deps", "--no-build-isolation", "--no-binary", ":all:", "--dest", FOLDER]
        subprocess.run([python, "-m", "pip", "download", *options, f"{name}=={version}"], check=True)
        stem = f"{name.replace('-', '_')}-{version}"
        _unpack(FOLDER / f"{stem}.tar.gz", FOLDER)
        (FOLDER / stem).rename(folder)
    return folder


def get_node_source(name: str, version: str) -> Path:
    """Return the folder of a package of Node with its tests."""
    folder = FOLDER / f"npm-{name}-{version}"
    if not folder.exists():
        if shutil.which("npm") is None:
            raise SystemExit(f"npm is needed for {name}, whose tests are in its package")
        FOLDER.mkdir(parents=True, exist_ok=True)
        command = ["npm", "pack", "--silent", "--pack-destination", FOLDER, f"{name}@{version}"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        _unpack(FOLDER / f"{name}-{version}.tgz", folder)
    return folder / "package"


def _unpack(archive: Path, folder: Path) -> None:
    shutil.unpack_archive(archive, folder, "gztar")
    archive.unlink()
