"""The providers by name, and the credentials that they need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy.orm import Session

from core.definitions.credentials.providers import normalize_spelling
from core.definitions.credentials.repository import CredentialRepository, decrypt_fields
from core.errors import Conflict, NotFound
from core.infra.encryption import KeyRing
from core.infra.settings import Settings
from core.tables import CloudCredential
from core.training.providers.huggingface import HuggingFaceProvider
from core.training.providers.local import LocalProvider
from core.training.providers.openai import OpenAiProvider
from core.training.providers.protocol import TrainingProvider
from core.training.providers.together import TogetherProvider

LOCAL, HUB = "local", "huggingface"
REMOTE = {"openai": OpenAiProvider, "together": TogetherProvider, HUB: HuggingFaceProvider}
TITLES = {"openai": "OpenAI", "together": "Together AI", HUB: "Hugging Face", LOCAL: "Local trainer"}
CREDENTIALS = {"openai": "OPENAI", "together": "TOGETHERAI", HUB: "HUGGING_FACE"}
SPELLINGS = {**{normalize_spelling(name): name for name in TITLES}, "TOGETHERAI": "together"}


@dataclass(frozen=True, slots=True)
class Access:
    """A credential and its fields in clear; a local training needs no credential."""

    credential_id: str | None
    fields: Mapping[str, str]


NO_ACCESS = Access(None, {})


def parse_provider_name(text: str) -> str:
    """Return the name of a provider in any spelling, also that of its credentials. Raises NotFound."""
    name = SPELLINGS.get(normalize_spelling(text))
    if name is None:
        raise NotFound(f"There is no AI provider of this name. Providers are {', '.join(TITLES)}.")
    return name


def open_provider(settings: Settings, name: str, access: Access) -> TrainingProvider:
    """Return the provider as the credential reaches it. Raises Unavailable for a local trainer that is not set."""
    return LocalProvider(settings) if name == LOCAL else REMOTE[name](settings, access.fields)


def find_access(
    session: Session, organization_id: str, name: str, key_ring: KeyRing, credential_id: str | None = None
) -> Access:
    """Return the access by the credential with this id, or else by the default one of the provider.

    Raise Conflict without a credential that has a key.
    """
    if name == LOCAL:
        return NO_ACCESS
    chosen = CredentialRepository(session, organization_id).select_for_execution(
        [credential_id] if credential_id else [], key_ring
    )
    credential = next((each for each in chosen if is_of_provider(each, name)), None)
    if credential is None:
        raise Conflict(
            f"{TITLES[name]} needs an enabled cloud credential of the provider {CREDENTIALS[name]} with an apiKey.",
            code="unknown-credential",
            path="cloudCredentialId",
        )
    return Access(credential.id, decrypt_fields(credential, key_ring))


def is_of_provider(credential: CloudCredential, name: str) -> bool:
    """Return whether a credential has a key of the provider."""
    same = normalize_spelling(credential.provider) == normalize_spelling(CREDENTIALS[name])
    return same and "api_key" in credential.secrets
