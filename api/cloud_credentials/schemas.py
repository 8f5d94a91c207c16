"""Cloud credentials as JSON. Secrets are never returned in clear."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import Field

from api.kit.schemas import Body, Record, example
from core.credentials.repository import MASK, SECRETS
from core.infra.encryption import CALLER_PREFIX
from core.tables import CloudCredential


class CredentialUpdate(Body):
    """A secret that is sent back masked stays as it is, as long as `endpoint` does."""

    model_config = example({"name": "Search", "provider": "BING_SEARCH", "apiKey": "the key"})

    name: str | None = None
    description: str | None = None
    provider: str | None = None
    enabled: bool | None = None
    api_key: str | None = None
    api_secret: str | None = None
    access_key_id: str | None = None
    secret_access_key: str | None = None
    region: str | None = None
    endpoint: str | None = Field(
        default=None,
        description="Where the provider is reached, when not at its usual address. A change of it takes all of the "
        "credential's secrets anew; a masked one is refused.",
    )
    engine_id: str | None = None


class CredentialCreate(CredentialUpdate):
    """`name` left out is the provider's. `global` serves all organizations, and takes a super_admin."""

    provider: str = Field(  # pyright: ignore[reportIncompatibleVariableOverride,reportGeneralTypeIssues]
        description="GOOGLE_SEARCH, BING_SEARCH, STEEL_DEV, TOGETHERAI, OPENAI, ANTHROPIC, HUGGING_FACE, AWS, GCP and "
        "AZURE, in any spelling; another name is stored as well, and injects nothing."
    )
    everywhere: bool = Field(default=False, alias="global")


class CredentialTest(CredentialUpdate):
    """Either the id of a stored credential, or the fields of one that is not stored."""

    model_config = example({"credentialId": "01a1fe8d-908f-7f00-a12a-dce377429a92"})

    credential_id: str | None = None


class CredentialVerdict(Record):
    """What the provider answered; `status` is null when it could not be asked, or when there is nothing to ask."""

    success: bool
    provider: str
    status: int | None
    message: str
    milliseconds: int | None


class CredentialRecord(Record):
    """`organizationId` is null for a global one. Secrets that are set show as asterisks."""

    id: str
    organization_id: str | None
    name: str
    description: str | None
    provider: str
    enabled: bool
    api_key: str | None
    api_secret: str | None
    access_key_id: str | None
    secret_access_key: str | None
    region: str | None
    endpoint: str | None
    engine_id: str | None
    needs_encryption_key: bool
    created_at: datetime
    updated_at: datetime


def credential_record(credential: CloudCredential) -> CredentialRecord:
    shown: dict[str, Any] = {field: MASK if field in credential.secrets else None for field in SECRETS}
    shown["needs_encryption_key"] = any(sealed.startswith(CALLER_PREFIX) for sealed in credential.secrets.values())
    plain = CredentialRecord.model_fields.keys() - shown.keys()
    return CredentialRecord(**shown, **{field: getattr(credential, field) for field in plain})
