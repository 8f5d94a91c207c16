"""The folder of a driver's host: its settings, the organization that it serves, and whether it has an execution.

The process that renames the socket from SOCKET to TAKEN has the host: nobody else can connect. A host can be taken
while Spark starts; the file READY means that Spark has started and the small job is done.

A host that waits for another execution after its first has a new SOCKET, and in HOST_FILE the only organization that
may have it. The cancel of an execution creates `name_cancel_mark` before the kill: a host that finds it ends.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import NonNegativeInt, PositiveFloat, PositiveInt

from pipelines.contract.request import SparkSpec, SpecPart

HOST_FILE, SOCKET, TAKEN, READY = "host.json", "socket", "taken", "ready"
SPEC_FILE, ENVIRONMENT_FILE = "spec.json", "environment.json"  # of the first execution of a pod
CANCEL_MARK = "cancelled-"
CERTIFICATE_FILE = "host.pem"
OWN_SPARK = "spark"  # in the scratch folder of a driver that starts Spark itself
FORKS = "forks.sock"  # the socket of the host of forks
PORT = 7443


class TlsSpec(SpecPart):
    """The address of a host in a pod; requests begin with the token."""

    token: str
    port: NonNegativeInt = PORT


class HostSpec(SpecPart):
    """A host of `executions` of one organization, which waits `idle_seconds` for another one.

    With `spark` it is a spare: Spark starts before its first execution, which may be of any organization with these
    settings; the heap is its own (`memory`). With `tls` it is a pod, whose first execution is in its folder.
    """

    spark: SparkSpec | None = None
    memory: str | None = None
    organization_id: str | None = None
    executions: PositiveInt = 1
    idle_seconds: PositiveFloat = 300
    tls: TlsSpec | None = None

    def fits(self, wanted: SparkSpec) -> bool:
        """Return whether an execution with these settings may have it; more libraries than needed do no harm."""
        if self.spark is None:
            return False
        equal = self.spark.model_copy(update={"libraries": wanted.libraries}) == wanted
        return equal and {*wanted.libraries} <= {*self.spark.libraries}

    def write(self, path: Path) -> None:
        draft = path.with_name(f"{path.name}.new")
        draft.write_text(self.model_dump_json(by_alias=True))
        draft.rename(path)


def read_host(path: Path) -> HostSpec:
    """Return the settings of a host; raise FileNotFoundError when it has ended."""
    return HostSpec.model_validate_json(path.read_bytes())


def name_cancel_mark(execution_id: str, attempt: int) -> str:
    return f"{CANCEL_MARK}{execution_id}.{attempt}"


def claim(folder: Path) -> bool:
    """Reserve the host of this folder; return False when it is not ready to be taken, or no longer."""
    try:
        (folder / SOCKET).rename(folder / TAKEN)
    except FileNotFoundError:
        return False
    return True
