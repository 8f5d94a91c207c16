"""Cloud credentials as JSON. Secrets are never returned in clear."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import Field

from api.kit.schemas import Body, Record
from core.definitions.credentials.repository import MASK, SECRETS
from core.infra.changes import example
from core.infra.encryption import CALLER_PREFIX
from core.tables import CloudCredential


class CredentialUpdate(Body):
    """A secret that is sent back masked stays as it is, as long as `endpoint` does."""

    model_config = example({"name": "Search", "provider": "BING_SEARCH", "apiKey": "the key"})

    name: str | None = None
    description: str | None = None
    provider: str | None = None
    """Such as OPENAI or AWS, in any spelling."""
    enabled: bool | None = None
    """Whether executions get it; true when left out at the creation."""
    api_key: str | None = None
    """Secret; reads return asterisks."""
    api_secret: str | None = None
    """Secret; reads return asterisks."""
    access_key_id: str | None = None
    """Secret; reads return asterisks."""
    secret_access_key: str | None = None
    """Secret; reads return asterisks."""
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
        description="GOOGLE_SEARCH, BING_SEARCH, STEEL_DEV, TOGETHERAI, OPENAI, ANTHROPIC, HUGGING_FACE, AWS, "
        "POSTGRESQL, MYSQL, KAFKA, MONGODB, GCP and AZURE, in any spelling; "
        "another name is stored as well, and injects nothing."
    )
    everywhere: bool = Field(default=False, alias="global")
    """Whether all organizations may use it; needs the scope `super_admin`."""


class CredentialTest(CredentialUpdate):
    """Either the id of a stored credential, or the fields of one that is not stored."""

    model_config = example({"credentialId": "01a1fe8d-908f-7f00-a12a-dce377429a92"})

    credential_id: str | None = None
    """Id of the stored credential to ask with."""


class CredentialVerdict(Record):
    """What the provider answered; `status` is null when it could not be asked, or when there is nothing to ask."""

    success: bool
    """Whether the provider accepted the credential."""
    provider: str
    """The provider under its usual name."""
    status: int | None
    """HTTP status of the provider's answer; null when it was not asked or did not answer."""
    message: str
    """The outcome as a sentence."""
    milliseconds: int | None
    """Time that the provider took; null when it was not asked."""


class CredentialRecord(Record):
    """`organizationId` is null for a global one. Secrets that are set show as asterisks."""

    id: str
    """Id of the credential."""
    organization_id: str | None
    """Id of the organization that it belongs to; null for a global one."""
    name: str
    description: str | None
    provider: str
    """The provider under its usual name."""
    enabled: bool
    """Whether executions get it."""
    api_key: str | None
    """Asterisks where it is set, else null."""
    api_secret: str | None
    """Asterisks where it is set, else null."""
    access_key_id: str | None
    """Asterisks where it is set, else null."""
    secret_access_key: str | None
    """Asterisks where it is set, else null."""
    region: str | None
    endpoint: str | None
    """Where the provider is reached; null for its usual address."""
    engine_id: str | None
    needs_encryption_key: bool
    """Whether X-Encryption-Key is needed to use it."""
    created_at: datetime
    updated_at: datetime


def credential_record(credential: CloudCredential) -> CredentialRecord:
    shown: dict[str, Any] = {field: MASK if field in credential.secrets else None for field in SECRETS}
    shown["needs_encryption_key"] = any(sealed.startswith(CALLER_PREFIX) for sealed in credential.secrets.values())
    plain = CredentialRecord.model_fields.keys() - shown.keys()
    return CredentialRecord(**shown, **{field: getattr(credential, field) for field in plain})
