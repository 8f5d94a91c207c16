"""Selectors for an element that a person has clicked, the best first."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from core.integrations.trials.markup import NUMBER
from core.integrations.trials.messages import ProposalAnswer, ProposalRequest, ProposedSelectorRecord
from pipelines.extract import (
    Document,
    Element,
    HtmlElement,
    SelectorError,
    SelectorFailed,
    SlowPattern,
    compile_selector,
)
from pipelines.fetch import Page
from pipelines.inference.candidates import make_reading, make_selectors, rate_selector
from pipelines.language.names import truncate
from pipelines.planning.draft import add_selector, find_selectors, list_segments, replace_selector

MAX_PROPOSALS = 6
MAX_TEXTS = 3
MAX_ROWS = 5
LABEL = ":containsOwn("
"""By a text beside the element, which may be that of one row alone: proposed after the others."""
_TEXT_LENGTH = 120


def propose_selectors(request: ProposalRequest) -> ProposalAnswer:
    """Return selectors that find the element, those first that survive most changes of the page.

    Of several that find the same elements by the same means, the best is proposed. Those without a value in the first
    rows of the page are the last.
    """
    body = request.html.encode()
    page = Page("about:blank", "about:blank", 200, None, "text/html", "utf-8", body, datetime.now(UTC))
    root = Document(page).root
    element = root.first(compile_selector(f"[{NUMBER}={request.element}]"))
    if not isinstance(root, HtmlElement) or not isinstance(element, HtmlElement):
        return ProposalAnswer(problem="The page has no element with this number.")
    best: dict[tuple[object, ...], tuple[int, str, list[Element]]] = {}
    for selector in dict.fromkeys(make_selectors(element.node, root.node)):
        if make_reading(selector, "text") is None:
            continue
        found = root.select(compile_selector(selector))
        rating, dependencies = rate_selector(selector)
        means = (dependencies, *(each.key for each in found))
        is_better = means not in best or (-rating, len(selector)) < (-best[means][0], len(best[means][1]))
        if element.key in means and is_better:
            best[means] = rating, selector, found
    replaced = next((each for each in find_selectors(request.pipeline) if each.line == request.line), None)
    rows = _select_rows(root, list_segments(request.pipeline, replaced))
    values = {selector: _read_values(rows, selector, found) for _, selector, found in best.values()}
    ordered = sorted(
        best.values(),
        key=lambda each: (not any(values[each[1]]), LABEL in each[1], -each[0], len(each[2]), len(each[1])),
    )
    return ProposalAnswer(
        proposals=[
            ProposedSelectorRecord(
                selector=selector,
                stability=rating,
                elements=[int(each.attr(NUMBER) or 0) for each in found],
                texts=[truncate(each.text(), _TEXT_LENGTH) for each in found[:MAX_TEXTS]],
                rows=values[selector],
                pipeline=(
                    replace_selector(request.pipeline, replaced, selector)
                    if replaced
                    else add_selector(request.pipeline, selector)
                ),
            )
            for rating, selector, found in ordered[:MAX_PROPOSALS]
        ]
    )


def _select_rows(root: Element, segments: Sequence[str] | None) -> Sequence[Element] | None:
    """Return the elements of the page's first rows; None where each element that is found becomes a row."""
    if segments is None:
        return None
    try:
        rows = [root]
        for selector in map(compile_selector, segments):
            rows = [found for row in rows for found in row.select(selector)][:MAX_ROWS]
    except (SelectorError, SelectorFailed, SlowPattern):
        return ()  # check reports it at its line
    return rows


def _read_values(rows: Sequence[Element] | None, selector: str, found: Sequence[Element]) -> list[str | None]:
    """Return the texts that `extract` reads in the rows with a selector."""
    firsts = found[:MAX_ROWS] if rows is None else [row.first(compile_selector(selector)) for row in rows]
    return [first and truncate(first.text(), _TEXT_LENGTH) for first in firsts]
