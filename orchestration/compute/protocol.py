"""The protocol `Compute`: where drivers run. Callers get an implementation from `create_compute`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, Protocol

from core.errors import SpindleError
from orchestration.driver_messages import DriverMessages
from pipelines.contract.request import RunRequest

PodType = Literal["driver", "executor"]
Wait = Callable[[float], bool]


@dataclass(frozen=True, slots=True)
class DriverHandle:
    """Identifies the driver of one attempt. Any process may make one, at any time."""

    organization_id: str
    execution_id: str
    attempt: int

    @property
    def name(self) -> str:
        return f"{self.organization_id}.{self.execution_id}.{self.attempt}"

    @classmethod
    def from_name(cls, name: str) -> DriverHandle:
        organization_id, execution_id, attempt = name.split(".")
        return cls(organization_id, execution_id, int(attempt))


@dataclass(frozen=True, slots=True)
class DriverStatus:
    """The exit code is None while the driver runs, and where it is no longer known.

    The reason is a sentence, where the cause of the end is known.
    """

    running: bool
    exit_code: int | None = None
    reason: str | None = None


class DriverSource(StrEnum):
    """The origin of an execution's driver."""

    WARM = "warm"  # it has served the organization before
    SPARE = "spare"
    NEW = "new"
    FORK = "fork"  # of a process without Spark


@dataclass(frozen=True, slots=True)
class Launch:
    """A driver that has an execution now, which has waited for it."""

    handle: DriverHandle
    source: DriverSource
    driver: str
    waited_seconds: float = 0.0


class LaunchFailed(SpindleError):
    """A driver cannot be started; a later attempt may succeed."""

    status = 503
    retryable = True
    default_code = "launch-failed"


class Compute(Protocol):
    """Starts, observes and stops drivers. A driver may outlive the process that started it."""

    @property
    def outlives_service(self) -> bool:
        """Whether drivers go on while the service is stopped, and report to it when it is there again."""
        ...

    def launch(
        self,
        spec: RunRequest,
        secrets: Mapping[str, str],
        environment: Mapping[str, str] | None = None,
        wait: Wait | None = None,
    ) -> Launch | None:
        """Give the execution to a driver. Secrets and other variables reach that in its environment only.

        While all drivers are busy, `wait` is called with the seconds until the next look and returns whether to go on;
        None when it does not. Raises LaunchFailed.
        """
        ...

    def observe(self, handle: DriverHandle) -> DriverStatus:
        """Return whether the driver runs; one that was never started does not."""
        ...

    def follow(self, handle: DriverHandle) -> None:
        """Copy the driver's log from here on, for a driver whose run has ended. May be called again and again."""
        ...

    def cancel(self, handle: DriverHandle) -> None:
        """Terminate the driver, kill it and all its processes after 3 s, and delete its scratch files.

        An ended driver is no error.
        """
        ...

    def open_messages(self, handle: DriverHandle) -> DriverMessages:
        """Return the messages that the driver sends, or will send."""
        ...

    def read_logs(self, handle: DriverHandle, pod_type: PodType = "driver", tail: int = 100) -> Sequence[str]:
        """Return the last lines of the log, an empty list before the driver has written any."""
        ...

    def read_log_part(self, handle: DriverHandle, offset: int, size: int) -> bytes:
        """Return at most `size` bytes of the log from this position; empty at its present end."""
        ...

    def list(self) -> Sequence[DriverHandle]:
        """Return all drivers that run or have left something, also those that other processes started."""
        ...
