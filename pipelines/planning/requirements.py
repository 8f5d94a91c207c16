"""Requirements of a plan on the machine that runs it."""

from __future__ import annotations

from pipelines.browser.model import BrowserOptions, NoBrowser
from pipelines.planning.plan import Plan
from pipelines.planning.stage import LinkStage


def find_missing_browser(plan: Plan) -> str | None:
    """Return a sentence that says how to install the browser that the plan needs; None when nothing is missing."""
    if not any(isinstance(step.stage, LinkStage) and step.stage.browsing for step in plan.steps):
        return None
    try:
        BrowserOptions.from_environment().check()
    except NoBrowser as error:
        return str(error)
    return None
