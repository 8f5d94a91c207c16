"""The protocol of a provider that trains models."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol

from core.errors import Conflict, Unavailable
from core.tables.states import State

ExampleFormat = Literal["messages", "text", "rows"]


class ProviderRefused(Conflict):
    """The provider refuses the request; to repeat it does not help."""

    default_code = "provider-refused"


class ProviderUnavailable(Unavailable):
    """The provider does not answer, or limits the rate."""

    default_code = "provider-unavailable"


class ProviderUnreadable(ProviderUnavailable):
    """The provider gives an answer that cannot be read."""


@dataclass(frozen=True, slots=True)
class Model:
    """A model that the provider names. `trainable` is None where the provider does not say."""

    id: str
    owner: str | None = None
    trainable: bool | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a training is; the provider may know none of it."""

    step: int | None = None
    steps: int | None = None
    loss: float | None = None
    message: str = ""

    @property
    def percent(self) -> float | None:
        if self.step is None or not self.steps:
            return None
        return round(min(100.0, 100 * self.step / self.steps), 1)

    def to_json(self, *, done: bool = False) -> dict[str, Any]:
        """Return the progress as it is stored and answered."""
        return {"percent": 100.0 if done else self.percent, **asdict(self)}


@dataclass(frozen=True, slots=True)
class JobRequest:
    """The parameters of a new training. Files are named by the provider's ids."""

    training_id: str
    model: str
    train: str
    validation: str | None
    hyperparameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Job:
    """A provider's job. `error` is its own sentence; the cost is in US dollars where the provider says it.

    A `lost` one has ended without a result, and can be begun again.
    """

    state: State
    progress: Progress = field(default_factory=Progress)
    error: str | None = None
    result: str | None = None
    tokens: int | None = None
    cost: Decimal | None = None
    lost: bool = False


@dataclass(frozen=True, slots=True)
class ModelFile:
    """One file of a trained model, read while it is sent. The size is None where it is not known before."""

    name: str
    size: int | None
    chunks: Generator[bytes]


class TrainingProvider(Protocol):
    """A provider as one credential reaches it.

    Every method raises ProviderRefused with the provider's sentence, or ProviderUnavailable.
    """

    example_format: ClassVar[ExampleFormat]

    def list_models(self) -> Sequence[Model]: ...

    def upload_file(self, owner_id: str, name: str, path: Path) -> str:
        """Send a file of examples (JSONL) and return the provider's id of it.

        The owner is a training or dataset; the name is `train.jsonl` or `validation.jsonl`.
        """
        ...

    def create_job(self, request: JobRequest) -> str:
        """Begin a training and return the id of its job."""
        ...

    def find_job(self, training_id: str) -> str | None:
        """Return the id of the job that was begun for a training, also when its answer was lost."""
        ...

    def get_job(self, job_id: str) -> Job: ...

    def list_log(self, job_id: str) -> Sequence[str]:
        """Return the lines of the job's log, oldest first."""
        ...

    def cancel_job(self, job_id: str) -> None:
        """Ask the provider to end the job; a job that has ended stays as it is."""
        ...

    def open_files(self, job_id: str, result: str | None) -> Sequence[ModelFile]:
        """Open the files of the trained model. Raise ProviderRefused where the provider keeps its weights."""
        ...
