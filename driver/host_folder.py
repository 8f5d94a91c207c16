"""The folder of a driver's host: its settings, and whether it waits for an execution.

A host that waits has a SOCKET there. It can be given an execution while Spark starts; the file READY means that Spark
has started and the small job is done.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import NonNegativeInt, PositiveFloat, PositiveInt

from pipelines.contract.request import SparkSpec, SpecPart

HOST_FILE, SOCKET, READY = "host.json", "socket", "ready"
SPEC_FILE, ENVIRONMENT_FILE = "spec.json", "environment.json"  # of the first execution of a pod
CERTIFICATE_FILE = "host.pem"
OWN_SPARK = "spark"  # in the scratch folder of a driver that starts Spark itself
PORT = 7443


class TlsSpec(SpecPart):
    """The address of a host in a pod; requests begin with the token."""

    token: str
    port: NonNegativeInt = PORT


class HostSpec(SpecPart):
    """A host of `executions` of one organization, which waits `idle_seconds` for another one.

    With `spark` it is a spare: Spark starts before its first execution, which may be of any organization with these
    settings; the heap is its own (`memory`). With `tls` it is a pod, whose first execution is in its folder. With
    neither it is a host of forks, for executions of all organizations.
    """

    spark: SparkSpec | None = None
    memory: str | None = None
    executions: PositiveInt = 1
    idle_seconds: PositiveFloat = 300
    tls: TlsSpec | None = None

    def fits(self, wanted: SparkSpec) -> bool:
        """Return whether an execution with these settings may have it; more libraries than needed do no harm."""
        if self.spark is None:
            return False
        equal = self.spark.model_copy(update={"libraries": wanted.libraries}) == wanted
        return equal and {*wanted.libraries} <= {*self.spark.libraries}


def read_host(path: Path) -> HostSpec:
    """Return the settings of a host; raise FileNotFoundError when it has ended."""
    return HostSpec.model_validate_json(path.read_bytes())
