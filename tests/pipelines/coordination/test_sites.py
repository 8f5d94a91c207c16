"""What the driver answers when a task asks about a site whose rules it has yet to read."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from queue import Queue

import pytest

from pipelines.coordination.budgets import Message
from pipelines.coordination.sites import Sites
from pipelines.fetch import FetchOptions

HOST = "http://shop.test"
SECONDS = 30


def test_rules_that_cannot_even_be_asked_for_are_an_answer_and_a_line_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The fetcher itself fails: with a network that is none it cannot be made."""
    told = Queue[Message]()

    def send(messages: Iterable[Message]) -> None:
        for message in messages:
            told.put(message)

    sites = Sites(FetchOptions(allow_networks=("nowhere",)), send)
    for task in ("a/0", "b/0"):
        sites.take(task, {"kind": "open", "origin": HOST, "places": 4})
    answers = dict(told.get(timeout=SECONDS) for _ in range(2))
    sites.close()
    refusal = (
        "ValueError: 'nowhere' is not a network such as 10.0.0.0/8 or fd00::/8, "
        "so its robots.txt is not known, and nothing may be fetched from the site"
    )
    assert {task: (answer["site"], answer["refusal"], answer["unreached"]) for task, answer in answers.items()} == {
        "a/0": (HOST, refusal, True),
        "b/0": (HOST, refusal, True),
    }
    assert told.empty()
    [line] = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert (line.getMessage(), line.exc_info is not None) == (f"{HOST}/robots.txt could not be read", True)
