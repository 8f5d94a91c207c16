"""Trace actions: the steps that the browser performs before a page is read.

An action is a class in a module of this package, a frozen model of its parameters like a stage:

    @register_action("press")
    class Press(Action):
        '''Presses a key.'''

        key: str

        async def perform(self, visit: Visit) -> None:
            await visit.page.keyboard.press(self.key)

Actions need not catch Playwright's exceptions: the visit turns them into the row's error.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Protocol, TypeVar

from pydantic import BeforeValidator, InstanceOf, ValidationError, ValidationInfo
from pydantic_core import InitErrorDetails, PydanticCustomError

from pipelines.language.arguments import Arguments, describe_faults
from pipelines.language.names import describe_unknown, normalize
from pipelines.language.plugin_scope import ALL_PLUGINS, PluginScope, UploadedAction
from pipelines.registry import Registry, UnknownName

if TYPE_CHECKING:
    from playwright.async_api import Frame
    from playwright.async_api import Page as PlaywrightPage

    from pipelines.fetch import Page


class Visit(Protocol):
    """A page in the browser during its trace; `address` is the row's, `frame` the one that actions are for."""

    page: PlaywrightPage
    frame: Frame
    address: str

    async def go(self, url: str) -> None:
        """Open `url`, which may be relative to the page, and wait until it has loaded."""
        ...

    async def enter_frame(self, selector: str | None, seconds: float) -> None:
        """Make the frame that a selector finds that of the actions and documents after it; None: the whole page."""
        ...

    async def read(self) -> Page:
        """Return the current document, after the end of a navigation."""
        ...

    async def snapshot(self) -> None:
        """Add the current document as a row."""
        ...

    async def run_script(self, column: str, script: str, seconds: float) -> None:
        """Set the page's value in one of the action's `columns` to that of a script's expression."""
        ...

    async def perform_prompt(self, prompt: str) -> None:
        """Do on the page what a prompt says."""
        ...

    async def dismiss_consent(self, seconds: float) -> None:
        """Refuse the consent notice that appears within so many seconds."""
        ...

    async def evaluate(self, script: str, frame: Frame | None = None) -> Any:
        """Return the JSON value of an expression, or None, from a world that the page's scripts cannot change.

        The expression is of the current frame, unless it is for another one.

        Return only numbers and texts of limited length from the page.
        """
        ...

    async def wait_for_captured(self, pattern: str, at_least: int, seconds: float) -> None:
        """Wait until so many JSON answers have come from addresses that a `captures` pattern of the trace matches."""
        ...

    def keep(self, column: str, value: bytes) -> None:
        """Set the page's value in one of the action's `columns`."""
        ...


class Action(Arguments):
    """Parameters of one action; `example` is a whole trace for the documentation."""

    example: ClassVar[str] = ""
    asks_model: ClassVar[bool] = False  # a language model for its steps
    sees_images: ClassVar[bool] = False  # then images are loaded, unless the stage excludes them
    has_open_columns: ClassVar[bool] = False  # that planning does not know
    takes_snapshot: ClassVar[bool] = False
    runs_script: ClassVar[bool] = False  # of the pipeline's author in the page

    def title(self) -> str:
        """Return a short description, printed after the action's name."""
        return ""

    def patience(self) -> float:
        """Return the maximum duration in seconds."""
        return 30.0

    @property
    def captures(self) -> str | None:
        """A pattern of addresses whose JSON the page's scripts request: the documents take the place of the page."""
        return None

    def columns(self) -> tuple[tuple[str, str], ...]:
        """Return the columns that the action adds to the rows, with their types."""
        return ()

    async def perform(self, visit: Visit) -> None:
        raise NotImplementedError


class MissingAction(Action):
    """An action of an uploaded plugin, which a driver has, or one that a plugin may bring, without its parameters."""

    has_open_columns = True


_SHAPE = "an entry of a trace is a map with 'action', its name, and 'params'"

ACTIONS: Registry[type[Action]] = Registry("action")
ActionClass = TypeVar("ActionClass", bound=type[Action])


def register_action(name: str, *aliases: str) -> Callable[[ActionClass], ActionClass]:
    """Register the decorated class under a name and aliases."""

    def register(cls: ActionClass) -> ActionClass:
        ACTIONS.add(name, *aliases, thing=cls)
        return cls

    return register


@dataclass(frozen=True, slots=True)
class Browsing:
    """The actions on every page, and whether images, fonts and media are loaded."""

    traces: tuple[Action, ...] = ()
    images: bool = False

    @property
    def gives_documents(self) -> bool:
        """Whether a page may give several rows: documents, or more than one snapshot."""
        return any(action.captures for action in self.traces) or sum(each.takes_snapshot for each in self.traces) > 1

    @property
    def asks_model(self) -> bool:
        """Whether an action asks a language model for its steps."""
        return any(action.asks_model for action in self.traces)


def read_action(entry: object, plugins: PluginScope = ALL_PLUGINS) -> object:
    """Convert `{action: name, params: {...}}` (or `factory`) to an action; raise ValueError with the path."""
    if isinstance(entry, Action):
        return entry
    if not isinstance(entry, dict):
        raise ValueError(_SHAPE)
    named: dict[str, Any] = {normalize(str(key)): key for key in entry}
    given = [named[key] for key in ("action", "factory") if key in named]
    for folded, key in named.items():
        if folded not in ("action", "factory", "params"):
            raise _create_error(describe_unknown("key", str(key), ("action", "params")), "unknown-key", key)
    if len(given) == 2:
        raise _create_error("give either 'action' or 'factory', not both", "conflicting-arguments", given[1])
    if not given:
        raise ValueError(_SHAPE)
    return _validate_action(entry, given[0], named.get("params"), plugins)


def _validate_action(entry: dict[Any, Any], naming: str, params: str | None, plugins: PluginScope) -> object:
    name = str(entry[naming])
    if "${" in name:  # a parameter without a value yet: any action has the right shape
        return Action()
    try:
        found = ACTIONS.find(name, plugins)
    except UnknownName as error:
        declared = plugins.actions.get(normalize(name))
        if declared is None and not plugins.accepts(error.may_come):
            raise _create_error(str(error), error.code, naming, may_come=error.may_come) from None
        return _make_missing(declared or UploadedAction(name), entry, params)
    try:
        return found.thing.model_validate((entry[params] if params else None) or {})
    except ValidationError as error:
        path = [params] if params else []
        faults = describe_faults(found.thing, error)
        lines = [_create_detail(f"{found.name}: {each.message}", each.code, *path, *each.loc) for each in faults]
        raise ValidationError.from_exception_data(name, lines) from None


def _make_missing(declared: UploadedAction, entry: dict[Any, Any], params: str | None) -> Action:
    """Return the stand-in of an action that a driver has; raise ValidationError for parameters that it lacks."""
    given = (entry[params] if params else None) or {}
    if not isinstance(given, dict):
        raise _create_error(f"{declared.name}: 'params' must be a map", "invalid-argument", params or "params")
    names = {normalize(str(each)): str(each) for each in given}
    if declared.parameters is not None:
        known = {normalize(each) for each in declared.parameters}
        for folded, name in names.items():
            if folded not in known:
                message = f"{declared.name}: {describe_unknown('argument', name, declared.parameters)}"
                raise _create_error(message, "unknown-argument", params or "params", name)
        for name in declared.required:
            if normalize(name) not in names:
                place = (params,) if params else ()
                raise _create_error(f"{declared.name}: '{name}' is missing", "missing-argument", *place)
    return MissingAction().mark_uploaded(declared)


def _create_error(message: str, code: str, *place: str | int, may_come: bool = False) -> ValidationError:
    return ValidationError.from_exception_data("action", [_create_detail(message, code, *place, may_come=may_come)])


def _create_detail(message: str, code: str, *place: str | int, may_come: bool = False) -> InitErrorDetails:
    # the template keeps braces in the message literal
    kind = PydanticCustomError("value_error", "{sentence}", {"sentence": message, "code": code, "may_come": may_come})
    return InitErrorDetails(type=kind, loc=place, input=None)


def _read_traced(entry: object, info: ValidationInfo) -> object:
    return read_action(entry, info.context or ALL_PLUGINS)


TraceAction = Annotated[InstanceOf[Action], BeforeValidator(_read_traced)]
Traces = tuple[TraceAction, ...]
