"""The start and the limits of processes that read users' files and run users' SQL. They import this module too."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import core

ADDRESS_SPACE = 6 * 2**30  # DuckDB's threads and allocator reserve far more than they use


def start_process(module: str, folder: str, **environment: str) -> subprocess.Popen[bytes]:
    """Start a module with pipes, in a folder that is its home, and with no secret of the service."""
    return subprocess.Popen(
        [sys.executable, "-P", "-m", module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=folder,
        env={
            "PYTHONPATH": str(Path(core.__file__).parent.parent),
            "PYTHONDONTWRITEBYTECODE": "1",
            "HOME": folder,
            "LC_ALL": "C.UTF-8",
            **environment,
        },
        start_new_session=True,  # Ctrl-C must not reach it: the service ends it
    )


def limit_resources() -> None:
    """Limit the memory of this process, which dumps no core."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
