"""The engine's own providers of cloud credentials, each with the environment variables that it sets in executions."""

from __future__ import annotations

from collections.abc import Mapping

from pipelines.plugin import Variables
from pipelines.registry import CREDENTIALS


def _name_variables(address: str, user: str, password: str) -> Variables:
    """Return the variables of a system with a login: the names of those with its address, user and password."""
    return {
        address: ("endpoint",),
        user: ("access_key_id", "api_key"),
        password: ("secret_access_key", "api_secret"),
    }


# variable → the fields that may hold its value; the first that is set counts
_PROVIDERS: Mapping[str, Variables] = {
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
    "LOGIN": {},  # only an execution whose pipeline names the login gets it (pipelines/login.py)
}

for _name, _variables in _PROVIDERS.items():
    CREDENTIALS.add(_name, thing=_variables)
