"""Public test suites through the product and through other tools: `python -m bench.conformance [SUITE…]`.

Prints a table, and of each suite the cases that the product gets wrong, with the reason if it is known.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import NamedTuple

from bench.conformance import caching, encodings, feeds, paths, prices, robots, selectors
from bench.conformance.cases import Case
from bench.conformance.reasons import find_reason
from bench.conformance.sources import install_peers
from bench.service import CLONE, Json, describe_machine


class Suite(NamedTuple):
    """A suite's cases, and what the product answers."""

    read_cases: Callable[[], list[Case]]
    answer: Callable[[Json], Json]


SUITES = {
    "encodings of HTML": Suite(encodings.read_cases, encodings.read_end),
    "encodings of XML": Suite(lambda: feeds.read_cases("encoding"), feeds.read_values),
    "entities in feeds": Suite(lambda: feeds.read_cases("entities"), feeds.read_values),
    "well-formed feeds": Suite(lambda: feeds.read_cases("wellformed"), feeds.read_values),
    "ill-formed feeds": Suite(lambda: feeds.read_cases("illformed"), feeds.read_values),
    "prices": Suite(prices.read_cases, prices.read_amount),
    "robots by Protego": Suite(robots.read_protego_cases, robots.ask_product),
    "robots by RFC 9309": Suite(robots.read_google_cases, robots.ask_product),
    "JSONPath": Suite(paths.read_cases, paths.find_values),
    "HTTP cache": Suite(caching.read_cases, caching.ask_product),
    "selectors": Suite(selectors.read_cases, selectors.count_elements),
}


def main() -> None:
    print(describe_machine())
    rows: list[str] = []
    for name, suite in SUITES.items():
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        cases = suite.read_cases()
        answers = [suite.answer(case.question) for case in cases]
        print(f"\n{name}: wrong by the product")
        for case, answer in zip(cases, answers, strict=True):
            if not case.is_right(answer):
                reason = find_reason(name, case.name) or f"FAULT: {answer} instead of {case.expected}"
                print(f"  {case.name}: {reason}"[:400])
        right = {"product": answers, **_ask_peers(name, cases)}
        counts = {who: sum(map(Case.is_right, cases, given)) for who, given in right.items()}
        others = ", ".join(f"{who} {count:,}" for who, count in counts.items() if who != "product")
        rows.append(f"| {name} | {len(cases):,} | {counts['product']:,} | {others} |")
    print("\n| suite | cases | right by the product | by its peers |\n|---|---|---|---|")
    print("\n".join(rows))


def _ask_peers(suite: str, cases: list[Case]) -> dict[str, list[Json]]:
    done = subprocess.run(
        [install_peers(), "-m", "bench.conformance.peers", suite],
        cwd=CLONE,
        input=json.dumps([case.question for case in cases]),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


if __name__ == "__main__":
    main()
