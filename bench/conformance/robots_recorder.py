"""Record the questions of a robots.txt parser's passing tests, in the peers' environment.

`python -m bench.conformance.robots_recorder protego|google FOLDER`
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gpyrobotstxt.robots_cc import RobotsMatcher
from protego import Protego

asked: dict[str, list[Any]] = {}
passed: set[str] = set()


class Recording:
    """A plugin of pytest that notes which tests pass."""

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            passed.add(report.nodeid)


def record(question: dict[str, object], answer: dict[str, object]) -> None:
    test = os.environ["PYTEST_CURRENT_TEST"].rpartition(" ")[0]
    asked.setdefault(test, []).append((question, answer))


def record_protego() -> None:
    parse = Protego.parse

    class Recorded:
        def __init__(self, content: str) -> None:
            self.content, self.rules = content, parse(content)

        def can_fetch(self, url: str, user_agent: str) -> bool:
            answer = self.rules.can_fetch(url, user_agent)
            record({"robots": self.content, "url": url, "agent": user_agent}, {"allowed": answer})
            return answer

        def crawl_delay(self, user_agent: str) -> float | None:
            answer = self.rules.crawl_delay(user_agent)
            record({"robots": self.content, "agent": user_agent}, {"delay": answer or 0})
            return answer

        def __getattr__(self, name: str) -> object:
            return getattr(self.rules, name)

    Protego.parse = Recorded  # pyright: ignore[reportAttributeAccessIssue]


def record_google() -> None:
    ask = RobotsMatcher.one_agent_allowed_by_robots

    def ask_and_record(self: RobotsMatcher, robots: str | bytes, agent: str, url: str) -> bool:
        answer = ask(self, robots, agent, url)
        text = robots.decode("utf-8", "surrogateescape") if isinstance(robots, bytes) else robots
        record({"robots": text, "url": url, "agent": agent}, {"allowed": answer})
        return answer

    RobotsMatcher.one_agent_allowed_by_robots = ask_and_record


RECORDERS: dict[str, Callable[[], None]] = {"protego": record_protego, "google": record_google}


def main() -> None:
    suite, folder = sys.argv[1], Path(sys.argv[2])
    RECORDERS[suite]()
    ignored = "--ignore-glob=*fetched*"  # these tests ask nothing
    with contextlib.redirect_stdout(sys.stderr):
        pytest.main(
            ["-q", "-c", os.devnull, "-p", "no:cacheprovider", "--rootdir", str(folder), ignored, str(folder)],
            plugins=[Recording()],
        )
    found = [(test, *each) for test in asked if test in passed for each in asked[test]]
    print(json.dumps({"asked": found}))


if __name__ == "__main__":
    main()
