"""The providers of cloud credentials that executions know, and the environment variables that each gives them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from core.errors import BadInput, Detail
from core.infra.validation import NAME_LENGTH, check_storable

# variable → the fields that may hold its value, the first that is set
PROVIDERS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "GOOGLE_SEARCH": {"GOOGLE_SEARCH_API_KEY": ("api_key",), "GOOGLE_SEARCH_ENGINE_ID": ("engine_id",)},
    "BING_SEARCH": {"BING_SEARCH_API_KEY": ("api_key",)},
    "STEEL_DEV": {"STEEL_DEV_API_KEY": ("api_key",)},
    "TOGETHERAI": {"TOGETHERAI_API_KEY": ("api_key",)},
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
    "GCP": {"GOOGLE_API_KEY": ("api_key",), "GOOGLE_CREDENTIALS": ("api_secret",)},
    "AZURE": {
        "AZURE_API_KEY": ("api_key",),
        "AZURE_STORAGE_ACCOUNT": ("access_key_id",),
        "AZURE_STORAGE_KEY": ("secret_access_key", "api_secret"),
    },
}


def provider_key(name: str) -> str:
    """What the spellings of one provider have in common: `Together AI`, `togetherai` and `TOGETHER_AI` are one."""
    return re.sub(r"[\W_]+", "", name).upper()


_AWS_REGION = re.compile(r"[A-Za-z0-9-]{1,63}")


def check_region(provider: str, region: str | None) -> None:
    """Raises BadInput for a region of AWS that is none: it becomes a part of the name of the host that is asked."""
    if provider == "AWS" and region and not _AWS_REGION.fullmatch(region):
        sentence = "'region' has letters, digits and hyphens alone, such as eu-central-1."
        raise BadInput(sentence, [Detail("region", sentence)])


_BY_KEY = {provider_key(name): name for name in PROVIDERS}


def provider_name(name: str) -> str:
    """The name that a provider is stored under, known or not; BadInput when nothing of it is left."""
    check_storable("provider", name)
    words = re.sub(r"[\W_]+", "_", name).strip("_").upper()
    if not words or len(words) > NAME_LENGTH:
        sentence = f"'provider' is a name of 1 to {NAME_LENGTH} characters, such as {', '.join(PROVIDERS)}."
        raise BadInput(sentence, [Detail("provider", sentence)])
    return _BY_KEY.get(provider_key(name), words)
