"""The choice of a model: provider, name, address, key and price."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import SecretStr

from pipelines.models.budget import Usage

# base URL and protocol of every provider; a credential's endpoint replaces the URL
PROVIDERS = {
    "TOGETHERAI": ("https://api.together.xyz/v1", "openai"),
    "OPENAI": ("https://api.openai.com/v1", "openai"),
    "ANTHROPIC": ("https://api.anthropic.com/v1", "anthropic"),
}
_DEFAULT_NAMES = {
    "TOGETHERAI": "meta-llama/Llama-3.3-70B-Instruct-Turbo",
    "OPENAI": "gpt-4.1-mini",
    "ANTHROPIC": "claude-haiku-4-5",
}
# US dollars per million tokens read and written: upper bounds by the beginning of the name, the longest first
_PRICES = (
    ("gpt-4.1-mini", 0.4, 1.6),
    ("gpt-4o-mini", 0.15, 0.6),
    ("gpt-4.1", 2.0, 8.0),
    ("gpt-4o", 2.5, 10.0),
    ("gpt-5-mini", 0.25, 2.0),
    ("gpt-5", 1.25, 10.0),
    ("claude-haiku", 1.0, 5.0),
    ("claude-sonnet", 3.0, 15.0),
)
_DEAREST = (15.0, 75.0)


@dataclass(frozen=True, slots=True)
class Model:
    """A model of a provider.

    `endpoint` is the base URL of a server that speaks the provider's protocol, like a local Ollama. `networks` are
    the private networks that the guard allows, `own_endpoints` the ports that it refuses in any case.
    """

    provider: str
    name: str
    key: SecretStr | None = None
    endpoint: str | None = None
    networks: tuple[str, ...] = ()
    own_endpoints: tuple[tuple[str, int], ...] = ()

    def __post_init__(self) -> None:
        if self.provider.upper() not in PROVIDERS:
            raise ValueError(f"'{self.provider}' is not a provider of models; there are {', '.join(PROVIDERS)}")

    @property
    def protocol(self) -> str:
        """The protocol, `openai` or `anthropic`."""
        return PROVIDERS[self.provider.upper()][1]

    @property
    def url(self) -> str:
        """The address of the protocol's one operation; an endpoint without a path gets `/v1`."""
        base = (self.endpoint or PROVIDERS[self.provider.upper()][0]).rstrip("/")
        if base.count("/") == 2:
            base += "/v1"
        return base + ("/messages" if self.protocol == "anthropic" else "/chat/completions")

    def compute_usage(self, tokens_in: int, tokens_out: int) -> Usage:
        """Return the usage of one call; an unknown name at a vendor counts with the highest price."""
        read, written = 0.0, 0.0
        if self.endpoint is None:
            found = ((a, b) for prefix, a, b in _PRICES if self.name.startswith(prefix))
            read, written = next(found, _DEAREST)
        return Usage(1, tokens_in, tokens_out, (tokens_in * read + tokens_out * written) / 1e6)


def choose_model(
    environment: Mapping[str, str],
    provider: str | None = None,
    name: str | None = None,
    networks: tuple[str, ...] = (),
    own_endpoints: tuple[tuple[str, int], ...] = (),
) -> Model | None:
    """Return the model of a provider, or of the first one that has a credential; None without a credential.

    A credential is the variables OPENAI_API_KEY and OPENAI_BASE_URL, and likewise for the others.
    """
    for each in (provider.upper(),) if provider else PROVIDERS:
        key, endpoint = environment.get(f"{each}_API_KEY"), environment.get(f"{each}_BASE_URL")
        if key or endpoint:
            secret = SecretStr(key) if key else None
            return Model(each, name or _DEFAULT_NAMES[each], secret, endpoint or None, networks, own_endpoints)
    return None
