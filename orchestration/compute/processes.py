"""Trees of processes: workers, browsers and sandboxes of a driver have process groups of their own."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress

import psutil

INHERITED = (
    "PATH",
    "HOME",
    "LANG",
    "LC_ALL",
    "TZ",
    "JAVA_HOME",
    "SPARK_HOME",
    "SPARK_LOCAL_IP",
    "PYTHONPATH",
    "SPINDLE_JARS",
    "SPINDLE_MAVEN",
    "XDG_CACHE_HOME",
    "SPINDLE_CHROMIUM",
    "SPINDLE_BROWSER_PAGES",
    "SPINDLE_BROWSER_SERVICE",
)
FIXED = {
    "PYTHONSAFEPATH": "1",  # `-P` for the Python workers that Spark starts
    "AWS_EC2_METADATA_DISABLED": "true",
}
# The shell writes the pid before it becomes Python, so a running driver always has its pid recorded.
RECORD_AND_RUN = 'echo $$ > "$0" && exec "$@"'


def build_environment(scratch: str, engine_folders: Sequence[str] = ()) -> Mapping[str, str]:
    """Return the environment of a driver with this scratch folder, without secrets.

    Python's own path follows the folders of a build of the engine, so that their modules are imported.
    """
    inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
    if engine_folders:
        paths = (*engine_folders, inherited.get("PYTHONPATH", ""))
        inherited["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    return {**inherited, "TMPDIR": scratch, "SPARK_LOCAL_DIRS": scratch, **FIXED}


def list_tree(pid: int) -> Sequence[psutil.Process]:
    """Return the process and its descendants."""
    try:
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def list_users(scratch: str) -> Sequence[psutil.Process]:
    """Return the processes whose folder for temporary files this is, also those whose driver has ended."""
    users: list[psutil.Process] = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):  # it has just ended, or is another user's
            if process.environ().get("TMPDIR") == scratch:
                users.append(process)
    return users


def kill_trees(processes: Sequence[psutil.Process]) -> None:
    """Kill those of the processes that are left, with the children that they have started since."""
    for process in processes:
        for each in list_tree(process.pid) if process.is_running() else ():
            with suppress(psutil.NoSuchProcess):
                each.kill()
