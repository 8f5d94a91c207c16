"""Trace actions: what is done in the browser before a page is read. A new one is a class in a module here.

An action is a frozen model of its own parameters, like a stage:

    @action("press")
    class Press(Action):
        '''Presses a key.'''

        key: str

        async def perform(self, visit: Visit) -> None:
            await visit.page.keyboard.press(self.key)

Playwright's exceptions may pass: the visit turns them into the sentence that the row carries.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Protocol, TypeVar

from pydantic import BeforeValidator, InstanceOf, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from pipelines.language.arguments import Arguments, describe_faults
from pipelines.language.names import describe_unknown, normalize
from pipelines.registry.catalog import Catalog, UnknownName

if TYPE_CHECKING:
    from playwright.async_api import Page


class Visit(Protocol):
    """A page in the browser while its trace is performed; `address` is the one that the row asked for."""

    page: Page
    address: str

    async def go(self, url: str) -> None:
        """Opens `url`, which may be relative to the page, and waits until it has loaded."""
        ...

    async def snapshot(self) -> None:
        """Remembers the page as it is now, as a row of its own."""
        ...

    async def evaluate(self, script: str) -> Any:
        """The JSON value of an expression, where the page's scripts have changed nothing; None where it has none.

        Whatever of the page is in it should be a number, or a text of limited length.
        """
        ...

    def keep(self, column: str, value: bytes) -> None:
        """Gives the rows of the page a value in a column that the action has in `columns`."""
        ...


class Action(Arguments):
    """Parameters of one action; `example` is a whole trace for the documentation."""

    example: ClassVar[str] = ""
    sees_images: ClassVar[bool] = False  # then images are loaded, unless the stage says otherwise

    def title(self) -> str:
        """What the action does here, in a few words after its name."""
        return ""

    def patience(self) -> float:
        """Seconds that it takes at most."""
        return 30.0

    def columns(self) -> tuple[tuple[str, str], ...]:
        """Columns that the action adds to the rows, with their types."""
        return ()

    async def perform(self, visit: Visit) -> None:
        raise NotImplementedError


_SHAPE = "an entry of a trace is a map with 'action', its name, and 'params'"

ACTIONS: Catalog[type[Action]] = Catalog("action")
ActionClass = TypeVar("ActionClass", bound=type[Action])


def action(name: str, *aliases: str) -> Callable[[ActionClass], ActionClass]:
    """Class decorator that registers an action under its name and aliases."""

    def register(cls: ActionClass) -> ActionClass:
        ACTIONS.add(name, *aliases, thing=cls)
        return cls

    return register


ACTIONS.mark_unsupported("it needs a language model, and none is supported so far", "prompt")


@dataclass(frozen=True, slots=True)
class Browsing:
    """How the browser makes pages: what is done on each, and whether images, fonts and media are loaded."""

    traces: tuple[Action, ...] = ()
    images: bool = False


def read_action(entry: object) -> object:
    """`{action: name, params: {...}}` (or `factory`) as the action; raises ValueError, with the fault's place."""
    if isinstance(entry, Action):
        return entry
    if not isinstance(entry, dict):
        raise ValueError(_SHAPE)
    named: dict[str, Any] = {normalize(str(key)): key for key in entry}
    given = [named[key] for key in ("action", "factory") if key in named]
    for folded, key in named.items():
        if folded not in ("action", "factory", "params"):
            raise _fault(describe_unknown("key", str(key), ("action", "params")), key)
    if len(given) == 2:
        raise _fault("give either 'action' or 'factory', not both", given[1])
    if not given:
        raise ValueError(_SHAPE)
    return _bound(entry, given[0], named.get("params"))


def _bound(entry: dict[Any, Any], naming: str, params: str | None) -> object:
    name = str(entry[naming])
    if "${" in name:  # a parameter that has no value yet: any will do for the shape
        return Action()
    try:
        found = ACTIONS.find(name)
    except UnknownName as error:
        raise _fault(str(error), naming) from None
    try:
        return found.thing.model_validate((entry[params] if params else None) or {})
    except ValidationError as error:
        told = zip(error.errors(include_url=False), describe_faults(found.thing, error), strict=True)
        lines = [_line(f"{found.name}: {told}", *([params] if params else []), *fault["loc"]) for fault, told in told]
        raise ValidationError.from_exception_data(name, lines) from None


def _fault(message: str, *place: str | int) -> ValidationError:
    return ValidationError.from_exception_data("action", [_line(message, *place)])


def _line(message: str, *place: str | int) -> InitErrorDetails:
    # a sentence is text: braces in it stand for themselves
    kind = PydanticCustomError("value_error", "{sentence}", {"sentence": message})
    return InitErrorDetails(type=kind, loc=place, input=None)


TraceAction = Annotated[InstanceOf[Action], BeforeValidator(read_action)]
Traces = tuple[TraceAction, ...]
