"""Selectors for an element that a person has clicked, the best first."""

from __future__ import annotations

from datetime import UTC, datetime

from core.integrations.trials.markup import NUMBER
from core.integrations.trials.messages import ProposalAnswer, ProposalRequest, ProposedSelectorRecord
from pipelines.extract import Document, Element, HtmlElement, compile_selector
from pipelines.fetch import Page
from pipelines.inference.candidates import make_reading, make_selectors, rate_selector
from pipelines.language.names import truncate
from pipelines.planning.draft import add_selector, find_selectors, replace_selector

MAX_PROPOSALS = 6
MAX_TEXTS = 3
LABEL = ":containsOwn("
"""By a text beside the element, which may be that of one row alone: proposed after the others."""
_TEXT_LENGTH = 120


def propose_selectors(request: ProposalRequest) -> ProposalAnswer:
    """Return selectors that find the element, those first that survive most changes of the page.

    Of several that find the same elements by the same means, the best is proposed.
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
    ordered = sorted(best.values(), key=lambda each: (LABEL in each[1], -each[0], len(each[2]), len(each[1])))
    return ProposalAnswer(
        proposals=[
            ProposedSelectorRecord(
                selector=selector,
                stability=rating,
                elements=[int(each.attr(NUMBER) or 0) for each in found],
                texts=[truncate(each.text(), _TEXT_LENGTH) for each in found[:MAX_TEXTS]],
                pipeline=_write(request.pipeline, selector, request.line),
            )
            for rating, selector, found in ordered[:MAX_PROPOSALS]
        ]
    )


def _write(text: str, selector: str, line: int | None) -> str:
    """Return the pipeline with the selector in place of the first of a line, or as a further column."""
    replaced = next((each for each in find_selectors(text) if each.line == line), None)
    return replace_selector(text, replaced, selector) if replaced else add_selector(text, selector)
