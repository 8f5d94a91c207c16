"""Whether a plan can run where it is."""

from __future__ import annotations

from pipelines.browser.options import BrowserOptions, NoBrowser
from pipelines.planning.plan import Plan
from pipelines.registry.stage import LinkStage


def missing_browser(plan: Plan) -> str | None:
    """What to install on this machine before the plan can run on it; None when it can."""
    if not any(isinstance(step.stage, LinkStage) and step.stage.browsing() for step in plan.steps):
        return None
    try:
        BrowserOptions.from_environment().check()
    except NoBrowser as error:
        return str(error)
    return None
