"""uv, run as a process: with an index, a cache and a deadline, and without the secrets of this process."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import uv

_INHERITED = re.compile(r"PATH|HOME|LANG|LC_ALL|TMPDIR|SSL_CERT_(FILE|DIR)|(HTTPS?|ALL|NO)_PROXY", re.IGNORECASE)
_CREDENTIALS = re.compile(r"(?<=://)[^/@\s]*@")
_CAUSE = re.compile(r"^\s*(cause|error): ")
_MAX_LINES = 8
_READABLE = 0o022  # the umask: a sandbox has a user id of its own
_OUT_OF_REACH = (
    "error sending request",
    "failed to fetch",
    "request failed",
    "lack of valid authentication credentials",
    "403 forbidden",
)


@dataclass(frozen=True, slots=True)
class PackageIndex:
    """Where packages come from: an index's address, or a folder of wheels; the public index when it is None.

    `cache` is uv's folder for what it has downloaded.
    """

    address: str | None
    cache: Path

    @property
    def is_folder(self) -> bool:
        return self.address is not None and "://" not in self.address


class InstallFailed(Exception):
    """uv has refused a request; `lines` are its last ones, without credentials."""

    def __init__(self, lines: Sequence[str]) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines

    @property
    def reason(self) -> str:
        """The causes that uv names, as one text."""
        return " ".join(_CAUSE.sub("", each).strip() for each in self.lines if each.strip())


class IndexUnavailable(Exception):
    """The index of packages does not answer in time, or refuses this service."""


def run_uv(
    index: PackageIndex,
    arguments: Sequence[str],
    seconds: float,
    *,
    given: str = "",
    lock: int | None = None,
) -> str:
    """Run a command of `uv pip` and return its output; `given` is its standard input.

    Raise InstallFailed, or IndexUnavailable where the index is out of reach. The descriptor `lock` stays open as long
    as uv runs, also when this process is killed.
    """
    command = [uv.find_uv_bin(), "pip", *arguments, "--python", sys.executable, "--no-config", "--color", "never"]
    command += ["--only-binary", ":all:", "--cache-dir", str(index.cache), "--quiet"]
    if index.address is not None and index.is_folder:
        folder = Path(index.address).absolute()
        if not folder.is_dir():
            raise IndexUnavailable(f"The folder of packages is missing: {folder}.")
        command += ["--no-index", "--find-links", str(folder)]
    index.cache.mkdir(mode=0o755, parents=True, exist_ok=True)
    try:
        done = subprocess.run(
            command,
            input=given.encode(),
            capture_output=True,
            env=_build_environment(index),
            cwd=index.cache.parent,
            timeout=seconds,
            umask=_READABLE,
            pass_fds=() if lock is None else (lock,),
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise IndexUnavailable(f"The index of packages did not answer within {seconds:g} s.") from error
    if done.returncode == 0:
        return done.stdout.decode()
    lines = _CREDENTIALS.sub("", done.stderr.decode(errors="replace")).strip().splitlines()
    if any(sign in line.casefold() for sign in _OUT_OF_REACH for line in lines):
        raise IndexUnavailable("The index of packages does not answer, or refuses this service.")
    raise InstallFailed(lines[-_MAX_LINES:])


def _build_environment(index: PackageIndex) -> Mapping[str, str]:
    """Return the environment of uv; an address may have a password, which no list of processes may show."""
    environment = {name: value for name, value in os.environ.items() if _INHERITED.fullmatch(name)}
    environment |= {"UV_HTTP_TIMEOUT": "10", "UV_HTTP_RETRIES": "1"}
    if index.address is None or index.is_folder:
        return environment
    return environment | {"UV_DEFAULT_INDEX": index.address}
