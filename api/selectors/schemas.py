"""Proven selectors as JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from api.kit.schemas import Record
from pipelines.inference.records import ProvenSelectors


class SelectorsRecord(Record):
    id: str
    """The same for all of one host, template and prompt."""
    host: str
    """Host of the pages."""
    template: str
    """A name of the pages with equal paths of tags."""
    features: list[int]
    """Numbers of the paths of tags of the template."""
    prompt: str
    """What was asked for."""
    prompt_key: str
    """A name of the prompt that spaces do not change."""
    kind: str
    """values, links, segments or steps."""
    fields: list[dict[str, Any]]
    """By field: the selector that reads it with its score (0 to 100) and samples of its values, all candidates with
    their stability and the pages that proved them, and figures of the values.
    """
    steps: list[dict[str, Any]]
    """Trace actions by which a prompt is performed in the browser, each with its parameters."""
    sample_urls: list[str]
    """Pages that were read to infer and prove the selectors."""
    model: str
    """Name of the language model."""
    usage: dict[str, Any]
    """Calls, tokens and US dollars that the inference has cost."""
    pinned: bool
    """Whether no run may replace them."""
    proven_at: datetime
    """When the selectors were proven, or last inferred."""


def build_selectors_record(record: ProvenSelectors) -> SelectorsRecord:
    data = record.model_dump(mode="json", by_alias=True)
    fields = [each.describe() for each in record.fields]
    return SelectorsRecord.model_validate({**data, "fields": fields, "id": record.key})
