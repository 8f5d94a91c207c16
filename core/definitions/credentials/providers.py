"""Providers of cloud credentials: their names and the environment variables that each sets in executions."""

from __future__ import annotations

import re

from core.errors import BadInput
from core.infra.validation import NAME_LENGTH, check_storable
from pipelines.plugin import Variables
from pipelines.registry import CREDENTIALS

PUBLIC_FIELDS = ("region", "endpoint")
AWS_REGION = re.compile(r"[A-Za-z0-9-]{1,63}")


def normalize_spelling(name: str) -> str:
    """Remove the differences between the spellings of one provider: `Together AI`, `togetherai` and `TOGETHER_AI`."""
    return re.sub(r"[\W_]+", "", name).upper()


def get_variables(provider: str) -> Variables:
    """Return the environment variables of a stored provider; a provider that nothing uses has none."""
    found = CREDENTIALS.get(normalize_spelling(provider))
    return found.thing if found else {}


def list_public_variables() -> frozenset[str]:
    """Return the environment variables that hold no secrets."""
    variables = (pair for entry in CREDENTIALS for pair in entry.thing.items())
    return frozenset(name for name, fields in variables if set(fields) <= {*PUBLIC_FIELDS})


def parse_provider(name: str) -> str:
    """Return the name that a provider is stored under, supported or not; raise BadInput for an unusable name."""
    check_storable("provider", name)
    words = re.sub(r"[\W_]+", "_", name).strip("_").upper()
    if not words or len(words) > NAME_LENGTH:
        examples = ", ".join(entry.name for entry in CREDENTIALS)
        raise BadInput(f"'provider' is a name of 1 to {NAME_LENGTH} characters, such as {examples}.", path="provider")
    found = CREDENTIALS.get(normalize_spelling(name))
    return found.name if found else words


def check_region(provider: str, region: str | None) -> None:
    """Raise BadInput for an invalid AWS region, because it becomes a part of the host name in requests."""
    if provider == "AWS" and region and not AWS_REGION.fullmatch(region):
        raise BadInput("'region' has letters, digits and hyphens only, such as eu-central-1.", path="region")
