"""Folders of installed packages, keyed by their content: each is made once for all that want it, or not at all.

An environment appears by a rename, so there is never one that is half made. A lock keeps two processes from making it
at once. uv holds it too: where the process is killed, the next one waits for the end of its uv.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from pipelines.environments.packages import find_lock, find_missing_requirements, index_locks, lock_packages
from pipelines.environments.uv import PackageIndex, run_uv

INSTALL_SECONDS = 600.0
UNUSED_SECONDS = 30 * 86400.0
_MAKING, _LOCK = ".making", ".lock"
_PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
Install = Callable[[Path, int], None]


@dataclass(frozen=True, slots=True)
class EnvironmentStore:
    """The environments below a folder; `index` is the source of their packages."""

    root: Path
    index: PackageIndex

    @classmethod
    def open(cls, root: Path, address: str | None) -> EnvironmentStore:
        return cls(root.absolute(), PackageIndex(address or None, root.absolute() / "uv"))

    def install_lock(self, lock: str, seconds: float = INSTALL_SECONDS) -> Path:
        """Return the folder with the packages of a lock; raise InstallFailed or IndexUnavailable."""

        def install(folder: Path, descriptor: int) -> None:
            file = folder / "requirements.txt"
            file.write_text(lock)
            arguments = ["install", "--target", str(folder), "--require-hashes", "--no-deps", "--compile-bytecode"]
            run_uv(self.index, [*arguments, "-r", str(file)], seconds, lock=descriptor)

        return self.prepare(sha256(lock.encode()).hexdigest()[:32], install)

    def install_wheel(self, digest: str, file_name: str, copy: Callable[[Path], None]) -> tuple[Path, ...]:
        """Return the folder of a wheel, then that of what it requires and the engine does not have, if anything.

        `copy` writes the wheel to a path. Raise InstallFailed or IndexUnavailable.
        """

        def install(folder: Path, descriptor: int) -> None:
            with tempfile.TemporaryDirectory(dir=self.root) as scratch:
                wheel = Path(scratch) / file_name
                copy(wheel)
                arguments = ["install", "--target", str(folder), "--no-deps", "--compile-bytecode", str(wheel)]
                run_uv(self.index, arguments, INSTALL_SECONDS, lock=descriptor)

        folder = self.prepare(f"wheel-{digest[:32]}-{_PYTHON}", install)
        return (folder, *self.install_requirements(find_missing_requirements(folder)))

    def install_requirements(self, requirements: Sequence[str], seconds: float = INSTALL_SECONDS) -> tuple[Path, ...]:
        """Return the folder with these packages and what they require, if there are any.

        Raise InstallFailed or IndexUnavailable.
        """
        if not requirements:
            return ()

        def install(folder: Path, descriptor: int) -> None:
            arguments = ["install", "--target", str(folder), "--compile-bytecode", *requirements]
            run_uv(self.index, arguments, seconds, lock=descriptor)

        key = sha256("\n".join(sorted(requirements)).encode()).hexdigest()
        return (self.prepare(f"required-{key[:32]}-{_PYTHON}", install),)

    def install_packages(self, packages: tuple[str, ...]) -> Path:
        """Return the folder with packages; their lock is kept, so that the next call needs no index."""
        file = self.root / f"{sha256(' '.join(packages).encode()).hexdigest()[:32]}.txt"
        lock = find_lock(packages, index_locks([file.read_text()])) if file.exists() else None
        if lock is None:
            lock = lock_packages(packages, self.index)
            made = file.with_suffix(f".{os.getpid()}")
            made.write_text(lock)
            made.rename(file)
        return self.install_lock(lock)

    def prepare(self, key: str, install: Install) -> Path:
        """Return the environment of a key; where it is missing, `install` fills a folder that becomes it."""
        folder = self.root / key
        if not _touch(folder):
            self.root.mkdir(mode=0o755, parents=True, exist_ok=True)
            with self._hold(key) as descriptor:
                if not _touch(folder):
                    self._remove_leftovers(key)
                    self._make(folder, install, descriptor)
        return folder

    def _make(self, folder: Path, install: Install, descriptor: int) -> None:
        making = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", suffix=_MAKING, dir=self.root))
        try:
            making.chmod(0o755)
            install(making, descriptor)
            making.rename(folder)
        finally:
            shutil.rmtree(making, ignore_errors=True)

    @contextmanager
    def _hold(self, key: str) -> Generator[int]:
        with (self.root / f"{key}{_LOCK}").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield file.fileno()

    def _remove_leftovers(self, key: str) -> None:
        """Remove folders that killed processes have left for this key, and environments that are not used any more."""
        for each in self.root.glob(f"{key}.*{_MAKING}"):
            shutil.rmtree(each, ignore_errors=True)
        for each in self.root.iterdir():
            is_environment = each.is_dir() and each != self.index.cache and not each.name.endswith(_MAKING)
            if is_environment and time.time() - each.stat().st_mtime > UNUSED_SECONDS:
                removed = each.rename(each.with_name(f"{key}.{each.name}{_MAKING}"))
                shutil.rmtree(removed, ignore_errors=True)


def open_local_store() -> EnvironmentStore:
    """Return the environments in the user's cache, for pipelines that run without a service."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return EnvironmentStore.open(cache.absolute() / "spindle" / "packages", os.environ.get("SPINDLE_PACKAGE_INDEX"))


def _touch(folder: Path) -> bool:
    """Record the use of an environment; return whether it is there."""
    try:
        os.utime(folder)
    except FileNotFoundError:
        return False
    return True
