"""Trace actions about the weather."""

from spindle import Action, Visit, register_action


@register_action("sunrise")
class Sunrise(Action):
    """Wait for the sun."""

    example = "[{action: sunrise}]"

    async def perform(self, visit: Visit) -> None:
        await visit.page.evaluate("document.body.className = 'sunny'")
