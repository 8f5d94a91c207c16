"""Supported providers of cloud credentials and the environment variables that each sets in executions."""

from __future__ import annotations

import re
from collections.abc import Mapping

from core.errors import BadInput
from core.infra.validation import NAME_LENGTH, check_storable


def _name_variables(address: str, user: str, password: str) -> Mapping[str, tuple[str, ...]]:
    """Return the variables of a system with a login: the names of those with its address, user and password."""
    return {
        address: ("endpoint",),
        user: ("access_key_id", "api_key"),
        password: ("secret_access_key", "api_secret"),
    }


# variable → the fields that may hold its value; the first that is set counts
PROVIDERS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "GOOGLE_SEARCH": {
        "GOOGLE_SEARCH_API_KEY": ("api_key",),
        "GOOGLE_SEARCH_ENGINE_ID": ("engine_id",),
        "GOOGLE_SEARCH_BASE_URL": ("endpoint",),
    },
    "BING_SEARCH": {"BING_SEARCH_API_KEY": ("api_key",), "BING_SEARCH_BASE_URL": ("endpoint",)},
    "SEARXNG": {"SEARXNG_API_KEY": ("api_key",), "SEARXNG_BASE_URL": ("endpoint",)},
    "STEEL_DEV": {"STEEL_DEV_API_KEY": ("api_key",)},
    "TOGETHERAI": {"TOGETHERAI_API_KEY": ("api_key",), "TOGETHERAI_BASE_URL": ("endpoint",)},
    "OPENAI": {"OPENAI_API_KEY": ("api_key",), "OPENAI_BASE_URL": ("endpoint",)},
    "ANTHROPIC": {"ANTHROPIC_API_KEY": ("api_key",), "ANTHROPIC_BASE_URL": ("endpoint",)},
    "HUGGING_FACE": {"HF_TOKEN": ("api_key",), "HF_ENDPOINT": ("endpoint",)},
    "AWS": {
        "AWS_ACCESS_KEY_ID": ("access_key_id", "api_key"),
        "AWS_SECRET_ACCESS_KEY": ("secret_access_key", "api_secret"),
        "AWS_REGION": ("region",),
        "AWS_DEFAULT_REGION": ("region",),
        "AWS_ENDPOINT_URL": ("endpoint",),
    },
    "POSTGRESQL": _name_variables("POSTGRESQL_URL", "POSTGRESQL_USER", "POSTGRESQL_PASSWORD"),
    "MYSQL": _name_variables("MYSQL_URL", "MYSQL_USER", "MYSQL_PASSWORD"),
    "KAFKA": _name_variables("KAFKA_SERVERS", "KAFKA_USER", "KAFKA_PASSWORD"),
    "MONGODB": _name_variables("MONGODB_HOSTS", "MONGODB_USER", "MONGODB_PASSWORD"),
    "GCP": {"GOOGLE_API_KEY": ("api_key",), "GOOGLE_CREDENTIALS": ("api_secret",)},
    "AZURE": {
        "AZURE_API_KEY": ("api_key",),
        "AZURE_STORAGE_ACCOUNT": ("access_key_id",),
        "AZURE_STORAGE_KEY": ("secret_access_key", "api_secret"),
    },
}

PUBLIC_FIELDS = ("region", "endpoint")
PUBLIC_VARIABLES = frozenset(
    name for variables in PROVIDERS.values() for name, fields in variables.items() if set(fields) <= {*PUBLIC_FIELDS}
)

AWS_REGION = re.compile(r"[A-Za-z0-9-]{1,63}")


def normalize_spelling(name: str) -> str:
    """Remove what the spellings of one provider differ in: `Together AI`, `togetherai` and `TOGETHER_AI`."""
    return re.sub(r"[\W_]+", "", name).upper()


CANONICAL_NAMES = {normalize_spelling(name): name for name in PROVIDERS}


def parse_provider(name: str) -> str:
    """Return the name that a provider is stored under, supported or not; raise BadInput for an unusable name."""
    check_storable("provider", name)
    words = re.sub(r"[\W_]+", "_", name).strip("_").upper()
    if not words or len(words) > NAME_LENGTH:
        examples = ", ".join(PROVIDERS)
        raise BadInput(f"'provider' is a name of 1 to {NAME_LENGTH} characters, such as {examples}.", path="provider")
    return CANONICAL_NAMES.get(normalize_spelling(name), words)


def check_region(provider: str, region: str | None) -> None:
    """Raise BadInput for an invalid AWS region, because it becomes a part of the host name in requests."""
    if provider == "AWS" and region and not AWS_REGION.fullmatch(region):
        raise BadInput("'region' has letters, digits and hyphens only, such as eu-central-1.", path="region")
