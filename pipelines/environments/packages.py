"""Packages of row functions: exact versions that a pipeline names, locked with all that they require.

The lock is a text of requirements with checksums, after a line that says what it is for. It holds wheels alone, so that
nothing of a package runs before a sandbox has it. Functions import `packaging`, which few pipelines need.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, distributions, version
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.environments.uv import InstallFailed, PackageIndex, run_uv
from pipelines.errors import ArgumentError
from pipelines.language.names import truncate, truncate_name

if TYPE_CHECKING:
    from packaging.requirements import Requirement

LOCK_SECONDS = 20.0
MAX_PACKAGES = 50
_PIN = re.compile(r"([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)\s*==\s*([^\s*;,]+)")
_NOT_FOUND = re.compile(r"(\S+) was not found|there is no version of (\S+?)==|no versions? of (\S+?)[=<>~! ]")
_NO_WHEEL = re.compile(r"(?:because|and) (\S+?)[=<>~!]\S* has no (?:usable wheels|wheels)", re.IGNORECASE)


class PackageRefused(Exception):
    """The packages cannot be had; `name` is the one that is the reason, where it is known, and `code` a problem's."""

    def __init__(self, message: str, code: str, name: str | None = None) -> None:
        super().__init__(message)
        self.message, self.code, self.name = message, code, name


def validate_package(text: str) -> str:
    """Return a package as name==version; raise ArgumentError for anything but one exact version."""
    from packaging.utils import canonicalize_name
    from packaging.version import InvalidVersion, Version

    found = _PIN.fullmatch(text.strip())
    try:
        version = str(Version(found[2])) if found else None
    except InvalidVersion:
        version = None
    if found is None or version is None:
        shown = truncate_name(text)
        sentence = f"'{shown}' is not a package of an exact version, such as rapidfuzz==3.14.1"
        raise ArgumentError(sentence, "inexact-package")
    return f"{canonicalize_name(found[1])}=={version}"


def validate_packages(packages: tuple[str, ...]) -> tuple[str, ...]:
    """Return the packages in order; raise ArgumentError for one that is named twice."""
    names = [get_name(each) for each in packages]
    if repeated := next((name for name in names if names.count(name) > 1), None):
        raise ArgumentError(f"the package {repeated} is named twice", "inexact-package")
    return tuple(sorted(packages))


def get_name(package: str) -> str:
    return package.partition("==")[0]


def is_allowed(package: str, allowed: Sequence[str]) -> bool:
    """Return whether a list of names, or `*` for all, has a package."""
    from packaging.utils import canonicalize_name

    return "*" in allowed or get_name(package) in {str(canonicalize_name(each)) for each in allowed}


def lock_packages(packages: Sequence[str], index: PackageIndex) -> str:
    """Return the lock of these packages and of all that they require.

    Raise PackageRefused where there is none, IndexUnavailable after 20 s or where the index does not answer.
    """
    arguments = ["compile", "-", "--generate-hashes", "--no-header", "--no-annotate"]
    try:
        locked = run_uv(index, arguments, LOCK_SECONDS, given="".join(f"{each}\n" for each in packages))
    except InstallFailed as error:
        raise _describe_refusal(packages, error.reason) from error
    return f"{_write_heading(packages)}\n{locked}"


def find_lock(packages: Sequence[str], locks: Mapping[str, str]) -> str | None:
    """Return the lock of these packages for this Python, from locks by their first lines."""
    return locks.get(_write_heading(packages))


def index_locks(locks: Sequence[str]) -> Mapping[str, str]:
    """Return locks by their first lines."""
    return {each.partition("\n")[0]: each for each in locks}


def find_missing_requirements(folder: Path) -> Sequence[str]:
    """Return what the packages in a folder require and this environment does not have, as uv takes it.

    Raise InstallFailed for a requirement that cannot be read, or that names an address in place of the index.
    """
    texts = (text for each in distributions(path=[str(folder)]) for text in each.requires or ())
    return [text for text in texts if not _is_met(_parse_requirement(text))]


def _parse_requirement(text: str) -> Requirement:
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        found = Requirement(text)
    except InvalidRequirement as error:
        raise InstallFailed([f"its requirement '{truncate_name(text)}' cannot be read"]) from error
    if found.url is not None:
        raise InstallFailed([f"its requirement {found.name} names an address, and only the index has packages"])
    return found


def _is_met(requirement: Requirement) -> bool:
    if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
        return True
    try:
        return requirement.specifier.contains(version(requirement.name), prereleases=True)
    except PackageNotFoundError:
        return False


def list_locked(lock: str) -> tuple[str, ...]:
    """Return the packages that a lock was made for."""
    return tuple(lock.partition("\n")[0].partition(": ")[2].split())


def _write_heading(packages: Sequence[str]) -> str:
    python = f"{platform.python_implementation()} {'.'.join(platform.python_version_tuple()[:2])}"
    return f"# {python} {platform.system()} {platform.machine()}: {' '.join(packages)}"


def _describe_refusal(packages: Sequence[str], reason: str) -> PackageRefused:
    """Return the refusal that uv's words mean."""
    from packaging.utils import canonicalize_name

    for pattern, code, sentence in (
        (_NO_WHEEL, "no-wheel", "has no wheel for this machine, and packages are not built from source"),
        (_NOT_FOUND, "unknown-package", "is not in the index in this version"),
    ):
        if found := pattern.search(reason):
            name = canonicalize_name(next(filter(None, found.groups())))
            shown = next((each for each in packages if get_name(each) == name), name)
            return PackageRefused(f"{truncate_name(shown)} {sentence}", code, name)
    message = f"the packages do not go together: {truncate(reason, 600)}"
    return PackageRefused(message, "package-conflict")
