"""Messages between the driver's coordinator and its tasks, as MessagePack frames over one TCP connection per task.

A frame is four bytes of length, big-endian, and a message. Origins are scheme, host and port of a site.
"""

from __future__ import annotations

from typing import Any, Literal, Protocol

from msgspec import Struct
from msgspec.msgpack import Decoder, Encoder

from pipelines.fetch.robots import Robots

LENGTH_BYTES = 4
SERVICE = "service "  # before the origin of a service, like a search API, whose robots.txt does not matter
MAX_HELLO_BYTES = 4096  # all that is read before the token is verified

Ordinal = tuple[int, ...]
PlacedRow = tuple[Ordinal, dict[str, Any]]
SeenPage = tuple[bytes, int, int, str | None, str | None]
"""Digest, outcome, time in microseconds, ETag and Last-Modified."""


class Endpoint(Struct, frozen=True):
    """Address and token of the driver's coordinator, and the number of preview rows that it collects for each step.

    With `has_environment` the run has environment variables, which tasks get from the coordinator.
    """

    host: str
    port: int
    token: str
    preview_rows: int = 0
    has_environment: bool = False


class Hello(Struct, frozen=True, tag=True):
    """The first message of a task."""

    token: str
    task: str


class Acquire(Struct, frozen=True, tag=True):
    """Request up to `slots` more slots at a host. The first one is answered with SiteRules before any Grant."""

    origin: str
    slots: int


class Release(Struct, frozen=True, tag=True):
    """Return slots; with `turn` also the right to start the next requests at a host with a delay."""

    origin: str
    slots: int
    turn: bool = False


class Pause(Struct, frozen=True, tag=True):
    """Leave a host alone: requested by a task after a 429 or 503, then broadcast to all tasks."""

    origin: str
    seconds: float


class FailedPage(Struct, frozen=True, array_like=True):
    """A page that `step` could not fetch: the server's status, the reason as a code and as a sentence, the requests."""

    url: str
    status: int | None
    reason: str
    message: str
    step: str
    attempts: int = 0


class FetchTally(Struct, array_like=True):
    """Counts of the pages with one status, and one reason if they have failed; `cached` pages took no request.

    Rows are complete without the `optional` ones, like those that enrich the results of a search.
    """

    status: int | None
    reason: str | None
    pages: int = 0
    retries: int = 0
    bytes: int = 0
    seconds: float = 0.0
    cached: int = 0
    optional: int = 0

    def describe_kind(self) -> str:
        """Return the status and the reason, for example `500 http-status`."""
        return " ".join(str(each) for each in (self.status, self.reason) if each is not None)


class Counts(Struct, omit_defaults=True):
    """Counts of one step so far; `bytes` of bodies as transferred, `seconds` that its tasks took together.

    `errors` are of pages, and of rows that a stage could not produce. `cached` counts the pages of earlier executions
    that were used without a request, `cut` the paginated addresses of which not all pages were requested, `malformed`
    the pages that were read nevertheless, with the first and its fault. `searched` counts the pages that the step's
    selectors were applied to; per selector, `empty` counts those without a match and `unfit` the values that did not
    fit the type of its column. `rendering` has by template the selectors whose matches scripts make, `bounded` the
    templates of addresses of which an explore has left some out.
    """

    rows: int = 0
    pages: int = 0
    errors: int = 0
    bytes: int = 0
    seconds: float = 0.0
    cached: int = 0
    cut: int = 0
    malformed: tuple[int, str] = (0, "")
    searched: int = 0
    empty: list[int] = []
    unfit: list[int] = []
    rendering: dict[str, str] = {}
    bounded: set[str] = set()

    @property
    def has_begun(self) -> bool:
        """Whether the step has begun; the pass before has searched its pages for the links of the step."""
        return bool(self.rows or self.pages or not self.searched)

    def add(self, other: Counts) -> None:
        """Add the counts of another task; one task may know more of a template than another."""
        self.rows += other.rows
        self.pages += other.pages
        self.errors += other.errors
        self.bytes += other.bytes
        self.seconds += other.seconds
        self.cached += other.cached
        self.cut += other.cut
        self.malformed = self.malformed[0] + other.malformed[0], self.malformed[1] or other.malformed[1]
        self.searched += other.searched
        self.empty = _add_lists(self.empty, other.empty)
        self.unfit = _add_lists(self.unfit, other.unfit)
        self.rendering |= {name: text or self.rendering.get(name, "") for name, text in other.rendering.items()}
        self.bounded |= other.bounded


def _add_lists(one: list[int], other: list[int]) -> list[int]:
    return [sum(pair) for pair in zip(one, other, strict=True)] if one and other else [*one, *other]


class Report(Struct, frozen=True, tag=True):
    """A task's totals by step key, and the news since its previous report: hashes of URLs, failures, preview rows.

    `answers` are totals by status and reason, `hosts` those that have blocked a page, with the pages since then and
    the blocked ones. In an incremental run, `seen` are the requested pages, `left_out` counts those that were not, and
    `gone` are addresses.
    """

    steps: dict[str, Counts]
    fetched: list[int] = []
    failed: list[int] = []
    forbidden: list[int] = []
    answers: list[FetchTally] = []
    failures: list[FailedPage] = []
    hosts: dict[str, tuple[int, int]] = {}
    previews: dict[str, list[PlacedRow]] = {}
    seen: list[SeenPage] = []
    left_out: int = 0
    gone: list[str] = []


class Cookies(Struct, frozen=True, tag=True):
    """New cookies of the run's session; without any, a request for all of them, which is answered by Cookies."""

    lines: list[str] = []


class Environment(Struct, frozen=True, tag=True):
    """Environment variables of the run, like credentials; without any, a request for them, answered likewise."""

    variables: dict[str, str] = {}


class Sample(Struct, frozen=True, tag=True):
    """A page for the inference of selectors, with the question about it; answered by Learned.

    `path` leads to the element that is asked about. Without a body, the task only says that it will send samples.
    `doubts` are the fields whose values are doubtful with the selectors of the `version`, each with the reason.
    """

    number: int = 0
    prompt: str = ""
    fields: tuple[str, ...] = ()
    kind: Literal["values", "links", "segments"] = "values"
    asked: tuple[str, ...] = ()
    scope: str = ""
    url: str = ""
    features: tuple[int, ...] = ()
    body: bytes = b""
    content_type: str | None = None
    charset: str | None = None
    path: str = ""
    doubts: tuple[tuple[str, str], ...] = ()
    version: int = 0


class Statistics(Struct, frozen=True, array_like=True):
    """Aggregates of a task as JSON about the values that selectors of one version have given on one template."""

    host: str
    question: str
    template: str
    version: int
    values: str


class Readings(Struct, frozen=True, tag=True):
    """A task's totals: statistics by template and question, and the number of pages that each of the means served."""

    statistics: list[Statistics]
    served: dict[str, int] = {}


class Waiting(Struct, frozen=True, tag=True):
    """The task has no further samples before some are answered; `urgent` ones are not to wait for other tasks'."""

    urgent: bool = False


class Learned(Struct, frozen=True, tag=True):
    """What serves a question on pages of a template: selectors as JSON, or an error, or neither for single pages.

    `values` are those of the task's samples by number and field: value, text, path, address and means. `items` are the
    paths of items by number, with the number of items that the page does not have. `version` counts
    the repairs of the selectors. Fields that could not be repaired are `lost`, each with the error for its rows;
    the doubts of `usual` fields and measures are none.
    """

    host: str
    question: str
    template: str
    features: tuple[int, ...]
    record: str
    error: str
    values: dict[int, dict[str, tuple[str, str, str, str, str]]]
    answered: list[int]
    items: dict[int, tuple[list[str], int]] = {}
    version: int = 0
    lost: dict[str, str] = {}
    usual: list[tuple[str, str]] = []


class Control(Struct, frozen=True, array_like=True):
    """An element of a page that a person can use: the path to it, its kind, its text and its present value."""

    path: str
    kind: str
    text: str
    value: str = ""


class StepsWanted(Struct, frozen=True, tag=True):
    """Ask for the steps by which a prompt is performed on a page; answered by Steps.

    `failed` is the version of steps that did not fit the page, or -1.
    """

    prompt: str
    url: str
    body: bytes
    failed: int = -1


class Steps(Struct, frozen=True, tag=True):
    """Recorded steps as JSON, or an error, or the request to record some, one StepWanted after another."""

    steps: str = "[]"
    version: int = 0
    error: str = ""
    is_wanted: bool = False


class StepWanted(Struct, frozen=True, tag=True):
    """Ask for the next step on the page as it is now; answered by NextStep. `failed`: the last step was impossible."""

    controls: list[Control]
    body: bytes
    failed: bool = False


class NextStep(Struct, frozen=True, tag=True):
    """The next step on one of the controls, with selectors that find it, each with a text that its element has."""

    action: Literal["click", "type", "select", "scroll_to_bottom", "wait", "done"] = "done"
    control: int = 0
    selectors: list[tuple[str, str]] = []
    text: str = ""
    error: str = ""


class StepsDone(Struct, frozen=True, tag=True):
    """The steps as JSON that have performed a prompt, or the error that ended them; answered by Steps."""

    steps: str = "[]"
    error: str = ""


class End(Struct, frozen=True, tag=True):
    """End of a task; the coordinator echoes it once it has processed all earlier messages."""


class SiteRules(Struct, frozen=True, tag=True):
    """The robots.txt rules of a site, and the seconds between the starts of two requests."""

    origin: str
    robots: Robots
    delay: float


class Grant(Struct, frozen=True, tag=True):
    """Additional slots, of which the task may keep `keep` after their requests.

    At a host with a delay each slot is good for one request, the first not earlier than in `wait` seconds.
    """

    origin: str
    slots: int
    keep: int = 0
    wait: float = 0.0


class Recall(Struct, frozen=True, tag=True):
    """Other tasks need slots: return all but `keep` as requests end."""

    origin: str
    keep: int


InferenceMessage = Sample | Readings | Waiting | StepsWanted | StepWanted | StepsDone
TaskMessage = Hello | Acquire | Release | Pause | Report | Cookies | Environment | InferenceMessage | End
DriverMessage = SiteRules | Grant | Recall | Pause | Cookies | Environment | Learned | Steps | NextStep | End


class Member(Protocol):
    """A connected task, as the driver sees it."""

    @property
    def name(self) -> str: ...

    def send(self, message: DriverMessage) -> None: ...


class InferenceHandler(Protocol):
    """Takes the samples and questions of tasks, and answers them; all calls come from the coordinator's thread."""

    def take(self, member: Member, message: InferenceMessage) -> None: ...

    def leave(self, member: Member) -> None:
        """Forget a task that has ended."""
        ...


_encoder = Encoder()
decode_task_message = Decoder(TaskMessage).decode
decode_driver_message = Decoder(DriverMessage).decode


def encode_frame(message: TaskMessage | DriverMessage) -> bytes:
    payload = _encoder.encode(message)
    return len(payload).to_bytes(LENGTH_BYTES) + payload
