"""The workers that stages give the runners, and the tools that they get from them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipelines.errors import RunError

if TYPE_CHECKING:
    from pipelines.contract.questions import QuestionReader
    from pipelines.coordination.services import ServiceClient
    from pipelines.extract.rows import PageTally, Row


@dataclass(frozen=True, slots=True)
class Tools:
    """Tools of a stage in a pass: the tally of its selectors' matches, and what answers its questions.

    Only a pass with stages that ask questions has `answers`, and one with stages that ask services a `client`.
    """

    tally: PageTally
    answers: QuestionReader | None = None
    client: ServiceClient | None = None

    @property
    def reader(self) -> QuestionReader:
        """The reader that answers questions about pages."""
        if self.answers is None:
            raise RunError("a stage that asks questions says so with `asks_questions`")
        return self.answers

    @property
    def services(self) -> ServiceClient:
        """The client for the requests of a ServiceStage."""
        if self.client is None:
            raise RunError("a stage that asks services is a ServiceStage")
        return self.client


@dataclass(frozen=True, slots=True)
class BatchWorker:
    """A row function that works on several rows at once: returns the rows that replace a row, for all rows in order.

    Over its time budget, a batch stops after the current row; the rest is resubmitted.
    """

    process: Callable[[Sequence[Row]], Iterable[Iterable[Row]]]
