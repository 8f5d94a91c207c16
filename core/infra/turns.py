"""The order in which many that wait get their turns: launches of the outbox, and executions that wait for a driver."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain, zip_longest
from typing import TypeVar

Waiting = TypeVar("Waiting")
Owner = tuple[str, str]  # an organization and one of its projects


def order_by_turns(waiting: Iterable[Waiting], get_owner: Callable[[Waiting], Owner]) -> list[Waiting]:
    """Return all that wait in the order of their turns: organizations take turns, and so do the projects of each.

    The organization that comes first among `waiting` begins, and so does its first project. Those of one project keep
    their order.
    """
    organizations: dict[str, dict[str, list[Waiting]]] = {}
    for each in waiting:
        organization, project = get_owner(each)
        organizations.setdefault(organization, {}).setdefault(project, []).append(each)
    return _interleave(_interleave(projects.values()) for projects in organizations.values())


def _interleave(queues: Iterable[Sequence[Waiting]]) -> list[Waiting]:
    """Return the first ones of all queues, then the second ones, until all are empty."""
    boxed = ([(each,) for each in queue] for queue in queues)
    return [*chain.from_iterable(chain.from_iterable(zip_longest(*boxed, fillvalue=())))]
