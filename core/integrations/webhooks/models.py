"""The fields of a webhook that a request sets."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from core.infra.changes import Changes, example
from core.lifecycle.executions.events import TYPES

EventType = Annotated[str, Field(json_schema_extra={"enum": [*TYPES]})]


class WebhookUpdate(Changes):
    model_config = example({"url": "https://example.com/hook", "events": ["execution.completed"]})

    url: str | None = Field(default=None, description="An http or https address. Redirects are not followed.")
    description: str | None = None
    events: list[EventType] | None = Field(default=None, description="Which events are sent, all when empty.")
    enabled: bool | None = None
    """Whether events are sent; true when left out at the creation."""


class WebhookCreate(WebhookUpdate):
    url: str = Field(  # pyright: ignore[reportIncompatibleVariableOverride,reportGeneralTypeIssues]
        description="An http or https address. Redirects are not followed."
    )
