"""Running of agents' Python code: a few at a time, each with the packages that the code itself names."""

from __future__ import annotations

from collections.abc import Sequence

from core.errors import Unavailable
from core.infra.concurrency import ConcurrencyLimiter
from core.infra.environments import open_environments
from core.infra.settings import Settings
from pipelines.environments.uv import IndexUnavailable, InstallFailed
from pipelines.errors import PipelineError
from pipelines.planning.script_reader import read_packages
from pipelines.transforms.script_run import CODE, run_script

INSTALL_SECONDS = 60.0
# callers are organizations. Each holds a core for up to 10 s, and one of the threads that all requests share
RUNS = ConcurrencyLimiter(2, 4, "Too many agents' Python codes are running. Try again in a moment.")


def run_code(
    settings: Settings, organization_id: str, code: str, arguments: Sequence[str] = (), lock: str | None = None
) -> str:
    """Return the pipeline, as YAML, that a Python code describes; `lock` is that of the packages that it names.

    Raise PipelineError with the line where it fails, TooMany while too many run, Unavailable where its packages are
    not here and the index does not answer.
    """
    with RUNS.acquire(organization_id):
        return run_script(code, arguments, _install(settings, code, lock))


def _install(settings: Settings, code: str, lock: str | None) -> str | None:
    """Return the folder of a code's packages; None for a code without packages."""
    if lock is None or not (named := read_packages(code)).packages:
        return None
    try:
        return str(open_environments(settings).install_lock(lock, INSTALL_SECONDS))
    except InstallFailed as error:
        message = f"the Python code gives no pipeline: its packages cannot be installed: {error.reason}"
        raise PipelineError([named.locate_package_problem(None, CODE, message)]) from error
    except IndexUnavailable as error:
        raise Unavailable(str(error), code="index-unavailable", path="spindle.packages") from error
